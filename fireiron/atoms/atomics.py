"""Atomic additions: registers are added to global memory, each element atomically, in no fixed order."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType, f32, f64, i32
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import GL, RF, Thread

_ADD_F32X4 = """\
__device__ __forceinline__ void add_f32x4(float* dst, const float* src) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
        : : "l"(__cvta_generic_to_global(dst)), "f"(src[0]), "f"(src[1]), "f"(src[2]), "f"(src[3]) : "memory");
}
"""


def _row(name: str, dtype: DType, count: int, call: str, cuda: str = "", arch: int = 70) -> Atom:
    layout = Layout((1, count), (0, 0 if count == 1 else 1))
    return Atom(
        name=name,
        kind="Add",
        shape=(count,),
        unit=Thread,
        operands=(
            Operand("src", RF, dtype, (1, count), layout, "read"),
            Operand("dst", GL, dtype, (1, count), layout, "update"),
        ),
        arch=arch,
        source="PTX ISA, Parallel Synchronization and Communication Instructions: red",
        cuda=cuda,
        call=call,
        # As a store of the same bytes; the L2 cache adds.
        clocks=4 * max(1, count * dtype.nbytes // 4),
    )


ATOMICS: tuple[Atom, ...] = (
    _row("red.add.f32x4", f32, 4, "add_f32x4(&{dst}, &{src});", _ADD_F32X4, arch=90),
    _row("red.add.f32", f32, 1, "atomicAdd(&{dst}, {src});"),
    _row("red.add.f64", f64, 1, "atomicAdd(&{dst}, {src});"),
    _row("red.add.i32", i32, 1, "atomicAdd(&{dst}, {src});"),
)
