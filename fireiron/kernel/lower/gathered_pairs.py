"""Factors of products that threads gather from shared memory: two neighbours of 16 bits are loaded by one instruction.

A factor of overlapping windows has no layout that ldmatrix can read, so each thread reads its elements one by one.
Where two neighbours in a thread's registers are also neighbours in shared memory, and the first has an even index, one
instruction loads both. Elements that the factor's condition excludes are set to 0 in registers.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Var, as_expr, as_int, free, simplest, substitute
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Cast, Constant, Scalar, Select, number, placed
from fireiron.atoms.table import matching
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Compute, For, Statement, View
from fireiron.kernel.lower.context import Body, Context
from fireiron.kernel.passes.pairs import beside
from fireiron.language.levels import RF, SH, Thread

NBYTES = 2  # bytes of an element, two of which fill a register


def gathered_by_pairs(body: Body, context: Context) -> Body:
    """Load neighbours together in the loops that gather a factor's elements.

    Args:
        body: the loops over a thread's elements, unrolled.
        context: the kernel's facts.
    """
    return rewrite(body, lambda s: _paired(s, context) if isinstance(s, For) else s)


def _paired(loop: For, context: Context) -> Statement:
    """Load two trips' elements at once; give the loop as it is where that is not possible."""
    count, one = as_int(loop.extent), loop.body[-1]
    if not loop.unroll or count is None or count % 2 or not isinstance(one, Compute) or len(one.inputs) != 1:
        return loop
    (source,), kind = one.inputs, one.dst.buffer.dtype
    found, zero = _kept(one.expr, kind), Compute(one.dst, number(0, kind), link=one.link)
    # Where points do not exist, both elements are zero.
    alike = one.write is None or loop.var not in free(one.write)
    if found is None or not alike or loop.body != ((one,) if one.write is None else (zero, one)):
        return loop
    pair, trip = Var(loop.var.name, count // 2), Var(f"{loop.var.name}_of_pair", 2)
    near, far = (_at(one.dst, {loop.var: 2 * pair + i}) for i in range(2))
    low, high = (_at(source, {loop.var: 2 * pair + i}) for i in range(2))
    same = source.buffer.memory == SH and source.buffer.dtype == kind and kind.nbytes == NBYTES
    if not same or not beside(near, far) or not _together(low, high):
        return loop
    each: dict[Expr, Expr] = {loop.var: 2 * pair + trip}
    held = _at(one.dst, each)

    atom = matching("Move", (2,), (kind, kind), (SH, RF), Thread, context.arch)[0]
    low, into = (attrs.evolve(view, layout=Layout(2, 1)) for view in (low, near))
    made: Body = (Call(atom, (low, into), one.write, link=one.link),)
    if isinstance(found, Select):
        tree = attrs.evolve(found, condition=placed(found.condition, each))
        made += (For(trip, as_expr(2), (Compute(held, tree, (held,), link=one.link),), unroll=True),)
    return For(pair, as_expr(count // 2), made, unroll=True)


def _kept(tree: Scalar, dtype: DType) -> Arg | Select | None:
    """Return the element of a plain read, or of a read under a condition and else 0; None for other expressions."""
    while isinstance(tree, Cast) and tree.dtype == dtype:
        tree = tree.x
    match tree:
        case Arg(dtype=kind) if kind == dtype:
            return tree
        case Select(condition, x, Constant(value=0)):
            read = x.x if isinstance(x, Cast) else x
            return Select(condition, read, number(0, dtype)) if isinstance(read, Arg) and read.dtype == dtype else None
        case _:
            return None


def _together(low: View, high: View) -> bool:
    """Say whether two elements are neighbours, and the first one has an even index."""
    if low.layout.size != 1 or low.swizzle is not None or low.slot != high.slot:
        return False
    return low.offset.divisor % 2 == 0 and as_int(as_expr(simplest(high.offset - low.offset))) == 1


def _at(view: View, values: dict[Expr, Expr]) -> View:
    """Return a view as it is in another trip of the loop."""
    offset, origin = as_expr(simplest(substitute(view.offset, values))), (substitute(e, values) for e in view.origin)
    return attrs.evolve(view, offset=offset, origin=tuple(origin))
