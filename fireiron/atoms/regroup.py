"""Regrouping: lanes exchange 8-bit elements between registers, from where sums of products lie to where factors do.

A register of a sum's columns, as `fragment_a(..., of_sums=True)` lays them out, holds two of every eight; a register of
a factor holds four beside each other. Both are dealt out to the same four lanes. Two registers take two shuffles.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, Warp

_ROWS, _COLUMNS = 16, 16
# Lane t of four needs, of both registers, half t / 2 of lanes 2 * (t % 2) and 2 * (t % 2) + 1. Even lanes first send
# the halves that the first two lanes need, odd ones those that the last two need.
_WRAPPER = """\
__device__ __forceinline__ void regroup_bytes(void* dst, const void* src) {
    const unsigned* s = static_cast<const unsigned*>(src);
    unsigned* d = static_cast<unsigned*>(dst);
    const int lane = threadIdx.x % 4;
    const bool odd = lane % 2 != 0, last = lane >= 2;
    const unsigned one = __byte_perm(s[0], s[1], odd ? 0x7632 : 0x5410);
    const unsigned two = __byte_perm(s[0], s[1], odd ? 0x5410 : 0x7632);
    const unsigned x = __shfl_sync(0xffffffff, one, lane % 2 * 2 + lane / 2, 4);
    const unsigned y = __shfl_sync(0xffffffff, two, lane % 2 * 2 + (1 - lane / 2), 4);
    d[0] = __byte_perm(x, y, last ? 0x1054 : 0x5410);
    d[1] = __byte_perm(x, y, last ? 0x3276 : 0x7632);
}
"""

REGROUP = Atom(
    name="shfl.regroup.b8",
    kind="Move",
    shape=(_ROWS * _COLUMNS,),
    unit=Warp,
    operands=(
        Operand("src", FR, None, (_ROWS, _COLUMNS), Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 128, 8)))),
        Operand("dst", FR, None, (_ROWS, _COLUMNS), Layout(((4, 8), (4, 2)), ((64, 1), (16, 8))), "write"),
    ),
    arch=70,
    source="PTX ISA, Data Movement and Conversion Instructions: shfl.sync, prmt",
    cuda=_WRAPPER,
    call="regroup_bytes(&{dst}, &{src});",
    nbytes=8,
    clocks=16,
)
