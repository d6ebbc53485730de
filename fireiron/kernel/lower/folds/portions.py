"""Shares: units that hold partial sums of the same elements divide these elements; each unit finishes some of them."""

from __future__ import annotations

from math import gcd

import attrs

from fireiron.algebra.expr import Expr, as_expr, lt, substitute
from fireiron.algebra.layout import Layout, of_leaves
from fireiron.algebra.layout_ops import coalesce
from fireiron.kernel.analysis.ownership import Access, Ownership, RegisterLoop
from fireiron.kernel.lower.context import Context
from fireiron.kernel.lower.window import Partial


@attrs.frozen
class Share:
    """Say which registers of the partial sums each way finishes.

    Args:
        ownership: ownership of the sums: way p's threads own the elements of portion p.
        portions: number of ways that finish any elements; the other ways finish none.
        first: portion -> its first register of the partial sums.
        steps: register of a portion -> steps from its first one.
        run: number of consecutive registers of the sums that are also consecutive in the partial sums.
    """

    ownership: Ownership
    portions: int
    first: Layout
    steps: Layout
    run: int


def divide(held: Ownership, partial: Partial, context: Context) -> Share:
    """Divide the outermost register loops among the ways, so that elements of one vector store stay in one way."""
    assert isinstance(partial.ways, int)
    access, rest, weight = held.access, partial.ways, held.size
    ways: list[tuple[int, int]] = []  # (portions, registers between them), outermost first
    kept: list[tuple[int, int]] = []  # (trips, registers between them) of the part of a loop that each way keeps
    loops: list[RegisterLoop] = []
    place: dict[Expr, Expr] = {}
    whose, taken = partial.way, 1
    for loop, extent in zip(access.loops, access.extents, strict=True):
        weight //= extent
        parts = gcd(extent, rest)
        each = extent // parts
        rest //= parts
        digit = as_expr(0) if parts == 1 else whose // taken % parts
        taken *= parts
        var = context.variable(loop.var.name, each)
        place[loop.var] = digit * each + (as_expr(0) if each == 1 else var)
        if each > 1:
            loops.append(attrs.evolve(loop, var=var, trips=as_expr(each)))
        ways.append((parts, each * weight))
        kept.append((each, weight))
    absent = (lt(whose, taken),) if rest > 1 else ()
    written = placed(held.written, place, tuple(loops), absent)
    owned = placed(
        access,
        {var: context.expanded(e) for var, e in place.items()},
        tuple(loops),
        tuple(context.expanded(g) for g in absent),
    )
    # Digits of a way count the outermost loop fastest, those of a register the innermost.
    steps = coalesce(of_leaves([(access.count, 1), *reversed(kept)]))
    run = steps.leaves[0][0] if steps.leaves[0][1] == 1 else 1
    assert isinstance(run, int)
    first = coalesce(of_leaves(ways))
    return Share(Ownership(owned, written, held.threads, "the sum of the ways"), taken, first, steps, run)


def placed(
    access: Access, place: dict[Expr, Expr], loops: tuple[RegisterLoop, ...], absent: tuple[Expr, ...] = ()
) -> Access:
    """Return one way's part of an access whose outermost loops are cut; `absent` says which ways have no part."""
    return Access(
        tuple(substitute(c, place) for c in access.coordinates),
        access.elements,
        loops,
        tuple(attrs.evolve(x, offset=substitute(x.offset, place)) for x in access.limits),
        (*(substitute(g, place) for g in access.guards), *absent),
    )
