"""Pointwise loops over neighbours of 16-bit floats, and conversions to 8 bits: one instruction computes two elements.

A loop is paired only where the packed form of each operation gives the bits of the single one, which computes in float
and rounds once.
"""

from __future__ import annotations

from typing import Final

import attrs

from fireiron.algebra.dtypes import bf16, e4m3, e5m2, f16, f32
from fireiron.algebra.expr import Expr, Var, as_expr, as_int, simplest, substitute
from fireiron.algebra.scalar import Arg, Binary, Cast, Scalar, Unary
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Compute, For, Statement, View
from fireiron.kernel.lower.context import Body

FIRST_ARCH = 80  # the first architecture that bounds pairs
FIRST_OF_BYTES = 89  # the first that converts to floats of 8 bits
_EITHER: Final = ("max", "min", "neg", "abs")
_BYTES: Final = (e4m3, e5m2)
_PACKED: Final = {f16: (*_EITHER, "add", "sub", "mul"), bf16: _EITHER}


@attrs.frozen
class Pair:
    """Describe two trips of a loop that one instruction computes: for each operand the two elements.

    Args:
        var: the variable that counts pairs.
        count: number of pairs.
        tree: the expression.
        dst: the two elements that are written.
        inputs: for each input, the two elements that are read.
    """

    var: Var
    count: int
    tree: Scalar
    dst: tuple[View, View]
    inputs: tuple[tuple[View, View], ...]


def with_pairs(body: Body, arch: int) -> Body:
    """Mark the loops whose trips run in pairs."""

    def marked(s: Statement) -> Statement:
        both = pair_of(s) if isinstance(s, For) else None
        if both is None or not (packs(both.tree) or (arch >= FIRST_OF_BYTES and of_bytes(both.tree))):
            return s
        return attrs.evolve(s, pairs=True)

    return rewrite(body, marked)


def pair_of(loop: For) -> Pair | None:
    """Combine two trips of a loop; None where that would not give the same bits.

    Args:
        loop: an unrolled loop around one `Compute` whose elements are neighbours in registers.
    """
    count = as_int(loop.extent)
    if not loop.unroll or count is None or count % 2 or len(loop.body) != 1:
        return None
    (one,) = loop.body
    if not isinstance(one, Compute) or one.write is not None or not (packs(one.expr) or converts(one.expr)):
        return None
    var = Var(loop.var.name, count // 2)
    first: dict[Expr, Expr] = {loop.var: as_expr(2 * var)}
    second: dict[Expr, Expr] = {loop.var: 2 * var + 1}

    def both(view: View) -> tuple[View, View]:
        return _at(view, first), _at(view, second)

    dst, inputs = both(one.dst), tuple(map(both, one.inputs))
    # An element that is read must not be one that the pair has overwritten.
    safe = all(a.buffer.name != dst[0].buffer.name or a.offset == dst[0].offset for a, _ in inputs)
    return Pair(var, count // 2, one.expr, dst, inputs) if safe and beside(*dst) else None


def packs(tree: Scalar) -> bool:
    """Say whether an instruction computes an expression's last operation on two elements."""
    return isinstance(tree, Unary | Binary) and tree.op in _PACKED.get(tree.dtype, ())


def converts(tree: Scalar) -> bool:
    """Say whether an expression is a conversion for which an instruction converts two elements.

    The compiler finds such pairs itself, except in branches; so lowering marks the loops.
    """
    known = isinstance(tree, Cast) and isinstance(tree.x, Arg) and tree.x.dtype == f32
    return known and tree.dtype in (*_PACKED, *_BYTES)


def of_bytes(tree: Scalar) -> bool:
    """Say whether an expression is a conversion to 8 bits, of which an instruction converts two and no fewer."""
    return converts(tree) and tree.dtype in _BYTES


def beside(low: View, high: View) -> bool:
    """Say whether two elements are neighbouring registers, the first with an even number."""
    return (
        low.buffer.memory.registers
        and low.layout.size == 1
        and low.offset.divisor % 2 == 0
        and as_int(as_expr(simplest(high.offset - low.offset))) == 1
    )


def _at(view: View, values: dict[Expr, Expr]) -> View:
    offset = as_expr(simplest(substitute(view.offset, values)))
    return attrs.evolve(view, offset=offset, slot=None if view.slot is None else substitute(view.slot, values))
