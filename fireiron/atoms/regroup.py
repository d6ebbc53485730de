"""Regrouping: lanes exchange elements between registers, from where sums of products lie to where factors do.

- 8 bits: a register that `fragment_a(..., of_sums=True)` lays out holds two of every eight columns; a register of a
  factor holds four neighbouring columns. In both layouts, the same four lanes hold a row. Regrouping two registers
  takes two shuffles.
- 16 bits in quad-pairs: of four columns, a thread has two in each of two rows of a sum, and all four in one row of a
  factor. The threads of two neighbouring rows exchange a register each, by one shuffle.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.atoms.fragments import of_sums
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, QuadPair, Warp

_ROWS, _COLUMNS = 16, 16
# Lane t of four needs, of both registers, half t / 2 of lanes 2 * (t % 2) and 2 * (t % 2) + 1. Even lanes first send
# the halves that the first two lanes need, odd ones those that the last two need.
_BYTES = """\
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

# Bit 1 of the lane says which of two rows of a sum a thread's row of a factor is: each sends the other row's columns.
_PAIRS = """\
__device__ __forceinline__ void regroup_pairs(void* dst, const void* src) {
    const unsigned* s = static_cast<const unsigned*>(src);
    unsigned* d = static_cast<unsigned*>(dst);
    const bool second = threadIdx.x % 4 >= 2;
    const unsigned x = __shfl_xor_sync(0xffffffff, second ? s[0] : s[1], 2);
    const unsigned own = second ? s[1] : s[0];
    d[0] = second ? x : own;
    d[1] = second ? own : x;
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
    cuda=_BYTES,
    call="regroup_bytes(&{dst}, &{src});",
    nbytes=8,
    clocks=16,
)

REGROUP_PAIRS = Atom(
    name="shfl.regroup.b16",
    kind="Move",
    shape=(32,),
    unit=QuadPair,
    operands=(
        Operand("src", FR, None, (8, 4), Layout(((2, 2, 2), (2, 2)), ((1, 16, 4), (8, 2)))),
        Operand("dst", FR, None, (8, 4), Layout((8, 4), (1, 8)), "write"),
    ),
    arch=70,
    source="PTX ISA, Data Movement and Conversion Instructions: shfl.sync",
    cuda=_PAIRS,
    call="regroup_pairs(&{dst}, &{src});",
    nbytes=8,
    clocks=8,
    converge=Warp,
)

REGROUPS = (REGROUP, REGROUP_PAIRS)


def regrouping(operand: Operand) -> tuple[Atom, Layout] | None:
    """Return the exchange behind which an operand holds a computed factor, and the layout in which it is computed.

    Args:
        operand: of a product's atom.

    Returns:
        The exchange, and the operand's layout with the columns that each thread has of a sum; None where there is no
        such exchange.
    """
    pairs = REGROUP_PAIRS.operand("dst")
    if operand.shape == pairs.shape and str(operand.layout) == str(pairs.layout):
        return REGROUP_PAIRS, REGROUP_PAIRS.operand("src").layout
    laid = of_sums(operand.layout, operand.shape[0])
    return None if laid is None else (REGROUP, laid)
