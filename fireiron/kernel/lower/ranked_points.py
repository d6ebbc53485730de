"""Points of a fold that ranks them (topk): a warp keeps one list, and passes by the points that cannot enter it.

For each chunk that a thread has in registers, groups of points are first reduced to their largest values. A vote of the
warp counts the lanes that have a point which may rank before the list's last one, the bound. In most chunks no lane has
one: such a chunk costs one maximum for each point, one comparison and one vote. If as many lanes have one as the list
keeps points, which is so in a row's first chunk, the bound rises to the value of this rank among the lanes' largest
values: these are different points, so points below the value change no result. A rolled loop then visits the groups. Of
a group with a point that reaches the bound, the points are copied to a queue; for each of the queue's places, a vote
says whether any lane's point is to be inserted into the list (`folds/ranked.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import gcd

import numpy as np

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Var, as_expr, eq, free, le, lt, minimum, ne
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Coordinate, Scalar, Select
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Buffer, Compute, For, If, Leave, Let, View, Vote
from fireiron.kernel.lower.context import Body, Context, State, descend, register_view
from fireiron.kernel.lower.folds.places import LANES, tabulated
from fireiron.kernel.lower.folds.ranked import Ranked, ranked_list
from fireiron.kernel.lower.folds.state import Open
from fireiron.kernel.lower.idle_points import around
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.sorted_points import fold_several
from fireiron.kernel.lower.step_points import (
    accumulate,
    at_place,
    at_points,
    each_point,
    exists,
    folded_dims,
    guarded_once,
    views_at,
)
from fireiron.kernel.lower.window import POINTS, cut
from fireiron.kernel.passes.pairs import packs
from fireiron.language.levels import Thread
from fireiron.language.steps import Step

GROUP = 8  # points in a group, which one vote may skip


def fold_points(step: Step, opened: Open, state: State, context: Context) -> Body:
    """Fold the points of each thread into its state, or into its warp's list.

    Args:
        step: the step with the fold.
        opened: the fold's state.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
    """
    inside, owned = at_points(step, state, context)
    extents = {a.dim: a.size for a in inside.windows[POINTS].axes}
    wide = [d.name for d in step.dims if extents[d.name] != 1]
    voting = owned is not None and not owned.loops and not owned.guards and state.level.name != Thread.name
    if (
        opened.fold.ranking is None
        or step.where is not None
        or len(step.over) != 1
        or wide not in ([], [step.over[0].name])
        or not voting
        or not _apart(opened, context)
    ):
        opened.beside = True
        if opened.fold.several is not None and step.where is None and wide == [d.name for d in step.over]:
            size = extents[wide[0]]
            assert isinstance(size, int)
            several = fold_several(step, opened, inside, context, wide[0], size)
            if several is not None:
                return several if owned is None else owned.around(several)
        main = guarded_once(each_point(step, inside, context, lambda at: accumulate(step, opened, at, context)))
        return main if owned is None else around(owned, main, [s.name for s in opened.storages], state, context)
    if opened.ranked is None:
        opened.ranked = ranked_list(opened.fold, opened.link, context)
    (dim,) = step.over
    size = extents[dim.name]
    assert isinstance(size, int)
    return _ranked(step, opened, opened.ranked, inside, context, dim.name, size)


def _apart(opened: Open, context: Context) -> bool:
    """Say whether the lanes of each warp have different points, all of one result."""
    if context.threads is None or context.threads % LANES or not opened.places:
        return False
    table = tabulated(opened, context.threads, context)
    kept, over = table.kept.reshape(-1, LANES), np.sort(table.over.reshape(-1, LANES), axis=1)
    return bool((kept == kept[:, :1]).all() and (over[:, 1:] > over[:, :-1]).all() and table.busy.all())


def _ranked(step: Step, opened: Open, kept: Ranked, state: State, context: Context, dim: str, size: int) -> Body:
    """Find the largest value of each group of points, and insert the points that reach the bound.

    Args:
        step, opened: the fold and its state.
        kept: the warp's list.
        state: the lowering state at a thread's points.
        context: the kernel's facts.
        dim: the dim along which the thread has several points.
        size: number of points along the dim.
    """
    for name in opened.roles:  # the list is copied to them when the fold is closed
        register_view(context, state.windows[name], state, f"step {step.name}")
    width, kind = _width(size), kept.value.buffer.dtype
    groups = size // width
    largest, queue = temporary("largest", kind, groups, context), temporary("queue", kind, width, context)
    reach = _register("reach", kind, context)
    place, counts = (_register(name, i32, context) for name in ("place", "counts"))
    g, g2, e = (context.variable(name, n) for name, n in (("g", groups), ("g", groups), ("e", width)))
    count, any_ = (context.variable(name, n) for name, n in (("count", LANES + 1), ("any", 2)))

    def at(group: Expr, one: Expr) -> State:
        counted = tuple(v for v in dict.fromkeys((*free(group), *free(one))) if isinstance(v, Var))
        loops = (RegisterLoop(v, as_expr(v.extent or 1), True, state.link) for v in counted)
        here = evolve(state, loops=(*state.loops, *loops))
        return descend(here, {dim: cut(1, size)}, {dim: group * width + one})

    def first(group: Expr | None) -> Expr:
        """Return the place of a thread's first point, in a group or in all; 0 if the points lie in no order."""
        start = _place(at(as_expr(0) if group is None else group, as_expr(0)), dim)
        low, _ = (_place(at(g if group is None else group, e), dim) - start).range
        return start if low is not None and low >= 0 else as_expr(0)

    def reaches(value: View, group: Expr) -> Body:
        return kept.flagged(counts, kept.reaches(Arg(0, kind), Coordinate(first(group))), (value, *kept.bound))

    def of_group(now: Expr) -> Body:
        """Insert the points of a group that reach the bound."""
        here = at(now, e)
        there, value = exists(step, here, folded_dims(here)), View(queue, e)
        masked = None if there is None else Binary("mul", Arg(0, i32), Coordinate(there))  # a choice would be a branch
        points: Body = (
            *reaches(value, now),
            *((Compute(counts, masked, (counts,), link=opened.link),) if masked is not None else ()),
            Vote(any_, counts, as_expr(1), opened.link),
            If(eq(any_, 1), (Compute(place, Coordinate(_place(here, dim))), *kept.inserted(counts, value, place))),
        )
        return _each(e, points)

    def copied(group: Expr) -> tuple[Body, Body]:
        return _copied(step, opened, partial(at, group), e, width, queue, context)

    if groups == 1:
        first_, then = copied(as_expr(0))
        visited = (*first_, *then, *of_group(as_expr(0)))
    else:
        visited = _visited(groups, lambda x: reaches(View(largest, x), x), counts, copied, of_group, kept)
    return (
        *_each(g, _largest(step, opened, kept, partial(at, g), View(largest, g), width, context)),
        Compute(reach, kept.lowest),
        *_each(g2, (Compute(reach, _higher(kind), (reach, View(largest, g2))),)),
        Compute(place, Coordinate(first(None))),
        *kept.counts(counts, (reach, place)),
        Vote(count, counts, as_expr(1), opened.link, "count"),
        If(lt(0, count), (If(le(kept.ranking.count, count), kept.raised(reach)), *visited)),
    )


def _visited(
    groups: int,
    reaches: Callable[[Expr], Body],
    counts: View,
    copied: Callable[[Expr], tuple[Body, Body]],
    of_group: Callable[[Expr], Body],
    kept: Ranked,
) -> Body:
    """Visit the groups with a point that reaches the bound, in a loop that is not unrolled.

    Lane g has the flag of group g. A rolled loop cannot index registers: of each of its trips, the group's own code
    copies what it has.

    Args:
        groups: the number of groups.
        reaches: sets `counts` in the lanes of whose group the largest value reaches the bound.
        counts: the flag.
        copied: returns statements that copy a group's points to the queue, and those that follow once they are copied.
        of_group: inserts the points of a group that is in the queue.
        kept: the warp's list.
    """
    context, link = kept.context, kept.link
    pending = _register("pending", i32, context)
    g, mine, now, trip = (context.variable(name, groups) for name in ("g", "g", "now", "trip"))
    found, any_ = context.variable("found", LANES + 1), context.variable("any", 2)
    marked = Select(Coordinate(eq(kept.lane, g)), Coordinate(any_), Arg(0, i32))
    left = Select(Coordinate(eq(kept.lane, found)), Constant(0, i32), Arg(0, i32))
    copy, then = copied(mine)
    one: Body = (
        Compute(pending, left, (pending,), link=link),
        Let(now, minimum(found, groups - 1)),
        *_each(mine, (If(eq(now, mine), copy),)),
        *then,
        *of_group(now),
    )
    return (
        Compute(pending, Constant(0, i32), link=link),
        *_each(g, (*reaches(g), Vote(any_, counts, as_expr(1), link), Compute(pending, marked, (pending,), link=link))),
        For(
            trip,
            as_expr(groups),
            (
                Vote(found, pending, as_expr(1), link, "first"),
                Leave(eq(found, LANES)),
                If(ne(found, LANES), one),  # on the simulator, the warps of a block leave together
            ),
        ),
    )


def _width(size: int) -> int:
    """Return the points of a group: `GROUP` or fewer, or more where a warp has fewer lanes than such groups."""
    width = gcd(size, GROUP)
    return (
        width if size // width <= LANES else next(n for n in range(1, size + 1) if size % n == 0 and size // n <= LANES)
    )


def _largest(
    step: Step, opened: Open, kept: Ranked, at: Callable[[Expr], State], to: View, width: int, context: Context
) -> Body:
    """Find the largest value of a group's points, and the lowest value where none exists.

    16-bit floats are compared before they are widened, two in one instruction.
    """
    e, kind = context.variable("e", width), to.buffer.dtype
    before, value, views = _value(step, at(e), context)
    mask = exists(step, at(e), folded_dims(at(e)))
    narrowed: Body = ()
    present: Body = ()
    match value:
        case Cast(Arg(0, dtype)) if not before and packs(_higher(dtype)) and (mask is None or e not in free(mask)):
            narrowed, read, width = _halved(lambda i: views_at(step, at(i), context)[1][0], dtype, width, context)
            e = context.variable("e", width)
            views = (read(e),)
        case _ if mask is not None and e in free(mask):
            value = Select(Coordinate(mask), value, kept.lowest)
        case _:
            pass
    if mask is not None and e not in free(mask):
        there = Select(Coordinate(mask), Arg(0, kind), kept.lowest)
        present = compute(to, there, (to,), None, context, opened.link)
    # The state is the last argument of the maximum: what reads the point stays as it is.
    taken = compute(to, Binary("max", value, Arg(len(views), kind)), (*views, to), None, context, opened.link)
    return (Compute(to, kept.lowest), *narrowed, *_each(e, (*before, *taken)), *present)


def _halved(
    read: Callable[[Expr], View], dtype: DType, width: int, context: Context
) -> tuple[Body, Callable[[Expr], View], int]:
    """Halve the points until two are left: each loop takes the larger of point i and point i + width / 2, in pairs."""
    body: Body = ()
    while width > 2 and width % 4 == 0:
        width //= 2
        half, e = temporary("half", dtype, width, context), context.variable("e", width)
        body += _each(e, (Compute(View(half, e), _higher(dtype), (read(e), read(e + width))),))
        read = partial(View, half)
    return body, read, width


def _higher(kind: DType) -> Scalar:
    return Binary("max", Arg(0, kind), Arg(1, kind))


def _register(name: str, kind: DType, context: Context) -> View:
    return View(temporary(name, kind, 1, context), as_expr(0))


def _each(var: Var, body: Body) -> Body:
    return (For(var, as_expr(var.extent or 1), body, unroll=True),)


def _value(step: Step, state: State, context: Context) -> tuple[Body, Scalar, tuple[View, ...]]:
    """Return the value of a point, and its reads."""
    before, views = views_at(step, state, context)
    return before, at_place(step.body, state), views


def _copied(
    step: Step, opened: Open, at: Callable[[Expr], State], e: Var, width: int, queue: Buffer, context: Context
) -> tuple[Body, Body]:
    """Return statements that copy a group's values to the queue, and those that follow once the group is copied.

    16-bit floats are copied in pairs, by a maximum with themselves, and widened later.
    """
    before, value, views = _value(step, at(e), context)
    to = View(queue, e)
    match value:
        case Cast(Arg(0, dtype)) if not before and packs(_higher(dtype)) and width % 2 == 0:
            narrow = View(temporary("narrow", dtype, width, context), e)
            copied = _each(e, (Compute(narrow, _higher(dtype), (*views, *views), link=opened.link),))
            return copied, _each(e, (Compute(to, value, (narrow,), link=opened.link),))
        case _:
            return _each(e, (*before, *compute(to, value, views, None, context, opened.link))), ()


def _place(state: State, dim: str) -> Expr:
    """Return a point's coordinate along a dim."""
    (axis,) = (a for a in state.windows[POINTS].axes if a.dim == dim)
    return axis.at(as_expr(0))
