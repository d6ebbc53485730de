"""movmatrix: a warp transposes an 8x8 matrix of 16-bit elements between registers.

Before, a thread holds two neighbours of a column of the tile; afterwards, two neighbours of a row (or the other way
round). These are fragments of A and of B.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, Warp

_WRAPPER = """\
__device__ __forceinline__ void movmatrix(void* dst, const void* src) {
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
        : "=r"(*static_cast<unsigned*>(dst))
        : "r"(*static_cast<const unsigned*>(src)));
}
"""
_ALONG = Layout(((4, 8), 2), ((16, 1), 8))  # two neighbours of a row
_DOWN = Layout(((4, 8), 2), ((2, 8), 1))  # two neighbours of a column


def _row(role: str, src: Layout, dst: Layout) -> Atom:
    return Atom(
        name=f"movmatrix.{role}.b16",
        kind="Move",
        shape=(64,),
        unit=Warp,
        operands=(Operand("src", FR, None, (8, 8), src), Operand("dst", FR, None, (8, 8), dst, "write")),
        arch=75,
        source="PTX ISA 9.7.14.5.17, movmatrix",
        cuda=_WRAPPER,
        call="movmatrix(&{dst}, &{src});",
        nbytes=4,
        clocks=4,
    )


MOVMATRIX: tuple[Atom, ...] = (_row("A", _DOWN, _ALONG), _row("B", _ALONG, _DOWN))
