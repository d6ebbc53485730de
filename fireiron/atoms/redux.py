"""Reductions inside a warp (redux.sync, sm_80): every lane gets the sum, min, max, and, or, xor of all lanes."""

from __future__ import annotations

from fireiron.algebra.dtypes import i32
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Fold, Operand
from fireiron.language.levels import RF, Warp

# The folds, with PTX's element type of each.
_FOLDS: dict[Fold, str] = {"add": "s32", "min": "s32", "max": "s32", "and": "b32", "or": "b32", "xor": "b32"}
_REDUCE = """\
__device__ __forceinline__ int reduce_{fold}(int x) {{
    int all;
    asm volatile("redux.sync.{fold}.{kind} %0, %1, 0xffffffff;" : "=r"(all) : "r"(x));
    return all;
}}
"""


def _row(fold: Fold) -> Atom:
    lanes = Layout((32, 1), (1, 0))
    return Atom(
        name=f"redux.{fold}.i32",
        kind="Reduce",
        shape=(1,),
        unit=Warp,
        operands=(Operand("src", RF, i32, (32, 1), lanes), Operand("dst", RF, i32, (32, 1), lanes, "write")),
        arch=80,
        source="PTX ISA, Parallel Synchronization and Communication Instructions: redux.sync",
        cuda=_REDUCE.format(fold=fold, kind=_FOLDS[fold]),
        call=f"{{dst}} = reduce_{fold}({{src}});",
        fold=fold,
        # CUDA programming guide, arithmetic instructions: 16 results a clock and SM, half as many as of shuffles.
        clocks=8,
    )


REDUX: tuple[Atom, ...] = tuple(map(_row, _FOLDS))
