"""Points that a fold may skip (topk): where few points change a state, warps skip the others.

A fold that ranks its points keeps the first `count` of them. A point is not needed if `count` other points of the same
result have larger values. The largest values of a warp's 32 lanes belong to 32 points; the value of rank `count` among
these 32 values is a bound: points below it change no result, even if their threads' own states would still take them.

For each chunk that a thread has in registers, groups of points are first reduced to their largest values. A vote of the
warp shows whether any lane has a point at or above the bound. In most chunks no lane has one: such a chunk costs one
maximum for each point, one comparison and one vote. In other chunks the bound rises, and a rolled loop visits the
groups. A group with a point at or above the bound is copied to a queue; each trip of a second loop folds one point of
every lane's queue, until all queues are empty. So the kernel has the code for folding a single point, however many
points a thread has, and the instruction cache holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd

import attrs
import numpy as np

from fireiron.algebra.branches import without_branches
from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Var, as_expr, eq, free
from fireiron.algebra.fused import fused
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Scalar,
    Select,
    children,
    coordinates,
    number,
    substituted,
    with_children,
)
from fireiron.atoms.table import exchange
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import THREAD, Buffer, Call, Compute, For, If, Leave, View, Vote
from fireiron.kernel.lower.context import Body, Context, State, descend, register_view
from fireiron.kernel.lower.folds.places import LANES, tabulated
from fireiron.kernel.lower.folds.state import Open, lowest, together, with_point
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.step_points import (
    accumulate,
    at_place,
    at_points,
    each_point,
    exists,
    folded_dims,
    views_at,
)
from fireiron.kernel.lower.window import POINTS, cut
from fireiron.kernel.passes.pairs import packs
from fireiron.language.levels import Thread
from fireiron.language.steps import Step

GROUP = 8  # points in a group, which one vote may skip


def fold_points(step: Step, opened: Open, state: State, context: Context, carried: bool) -> Body:
    """Fold the points of each thread into its state.

    Args:
        step: the step with the fold.
        opened: the fold's state.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        carried: whether a loop folds further points into the same state.
    """
    inside, owned = at_points(step, state, context)
    extents = {a.dim: a.size for a in inside.windows[POINTS].axes}
    wide = [d.name for d in step.dims if extents[d.name] != 1]
    voting = owned is not None and not owned.loops and not owned.guards and state.level.name != Thread.name
    ranking = opened.fold.ranking
    if (
        ranking is None
        or step.where is not None
        or len(wide) != 1
        or not voting
        or not _apart(opened, context)
        or not _moves(opened)
    ):
        main = each_point(step, inside, context, lambda at: accumulate(step, opened, at, context))
        return main if owned is None else owned.around(main)
    size = extents[wide[0]]
    assert isinstance(size, int)
    if size <= GROUP and not carried:  # a bound costs as much as it saves
        return each_point(step, inside, context, lambda at: accumulate(step, opened, at, context))
    if opened.bound is None:
        opened.bound = View(temporary("bound", lowest(opened).dtype, 1, context), as_expr(0))
    return _ranked(step, opened, inside, context, wide[0], size)


def _apart(opened: Open, context: Context) -> bool:
    """Say whether the lanes of each warp have different points, all of one result."""
    if context.threads is None or context.threads % LANES or not opened.places:
        return False
    table = tabulated(opened, context.threads, context)
    kept, over = table.kept.reshape(-1, LANES), np.sort(table.over.reshape(-1, LANES), axis=1)
    return bool((kept == kept[:, :1]).all() and (over[:, 1:] > over[:, :-1]).all() and table.busy.all())


def _moves(opened: Open) -> bool:
    """Say whether a fold uses a point's coordinate unchanged, so that a register can hold the coordinate."""
    dim, *others = opened.step.over
    trees = with_point(opened.fold, Arg(len(opened.fold.dtypes), opened.step.body.dtype))
    return not others and all(e == dim or dim not in free(e) for tree in trees for e in coordinates(tree))


def _ranked(step: Step, opened: Open, state: State, context: Context, dim: str, size: int) -> Body:
    """Find the largest value of each group of points, and fold the points that reach the bound.

    Args:
        step, opened: the fold and its state.
        state: the lowering state at a thread's points.
        context: the kernel's facts.
        dim: the dim along which the thread has several points.
        size: number of points along the dim.
    """
    bound, width = opened.bound, gcd(size, GROUP)
    assert bound is not None
    kind, groups = bound.buffer.dtype, size // width
    largest = temporary("largest", kind, groups, context)
    reach, best, highest = (_register(name, kind, context) for name in ("reach", "best", "highest"))
    first = register_view(context, state.windows[opened.roles[0]], state, f"step {step.name}")
    higher = _higher(kind)
    g, g2, now, mine = (context.variable("g", groups) for _ in range(4))
    queue = Queue(temporary("queue", step.body.dtype, width, context), _register("left", i32, context))

    def at(group: Var, one: Expr) -> State:
        counted = (group, *(v for v in free(one) if isinstance(v, Var)))
        loops = (RegisterLoop(v, as_expr(v.extent or 1), True, state.link) for v in counted)
        here = evolve(state, loops=(*state.loops, *loops))
        return descend(here, {dim: cut(1, size)}, {dim: group * width + one})

    # A rolled loop cannot index registers: of each of its trips, the group's own code copies what it has.
    chosen = Compute(highest, Arg(0, kind), (View(largest, mine),))
    queued = tuple(x for i in range(width) for x in _queued(step, opened, at(mine, as_expr(i)), i, queue, context))
    places = [_place(step, at(now, as_expr(i)), dim) for i in range(width)]
    group: Body = (
        *_each(mine, (If(eq(now, mine), (chosen,)),)),
        *_where(
            _reaches(kind),
            (highest, bound),
            (
                Compute(queue.left, Constant(0, i32)),
                *_each(mine, (If(eq(now, mine), queued),)),
                *_emptied(step, opened, at(now, as_expr(0)), places, queue, context),
            ),
            context,
        ),
    )
    body: Body = (
        Compute(best, higher, (reach, first), link=state.link),
        *_risen(opened, best, context),
        For(now, as_expr(groups), group),
    )
    return (
        *_each(g, _largest(step, opened, partial(at, g), View(largest, g), width, context)),
        Compute(reach, lowest(opened)),
        *_each(g2, (Compute(reach, higher, (reach, View(largest, g2))),)),
        *_where(_reaches(kind), (reach, bound), body, context),
    )


def _largest(step: Step, opened: Open, at: Callable[[Expr], State], to: View, width: int, context: Context) -> Body:
    """Find the largest value of a group's points, and the lowest value where none exists.

    16-bit floats are compared before they are widened, two in one instruction.
    """
    e, kind = context.variable("e", width), to.buffer.dtype
    before, value, views, mask = _value(step, opened, at(e), context)
    narrowed: Body = ()
    present: Body = ()
    match value:
        case Cast(Arg(0, dtype)) if not before and packs(_higher(dtype)) and (mask is None or e not in free(mask)):
            narrowed, read, width = _halved(lambda i: views_at(step, at(i), context)[1][0], dtype, width, context)
            e = context.variable("e", width)
            views = (read(e),)
        case _ if mask is not None and e in free(mask):
            value = Select(Coordinate(mask), value, lowest(opened))
        case _:
            pass
    if mask is not None and e not in free(mask):
        there = Select(Coordinate(mask), Arg(0, kind), lowest(opened))
        present = compute(to, there, (to,), None, context, opened.link)
    # The state is the last argument of the maximum: what reads the point stays as it is.
    taken = compute(to, Binary("max", value, Arg(len(views), kind)), (*views, to), None, context, opened.link)
    return (Compute(to, lowest(opened)), *narrowed, *_each(e, (*before, *taken)), *present)


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


@attrs.frozen
class Queue:
    """Hold the points of a group in registers, and which of them a thread still has to fold.

    Args:
        values: the registers of the points' values.
        left: bit i is set while point i is still to be folded.
    """

    values: Buffer
    left: View


def _register(name: str, kind: DType, context: Context) -> View:
    return View(temporary(name, kind, 1, context), as_expr(0))


def _each(var: Var, body: Body) -> Body:
    return (For(var, as_expr(var.extent or 1), body, unroll=True),)


def _value(
    step: Step, opened: Open, state: State, context: Context
) -> tuple[Body, Scalar, tuple[View, ...], Expr | None]:
    """Return the value by which a point is ranked, its reads, and the condition that the point exists."""
    ranking = opened.fold.ranking
    assert ranking is not None
    before, views = views_at(step, state, context)
    value = at_place(substituted(ranking.value, (step.body,)), state)
    return before, value, views, exists(step, state, folded_dims(state))


def _reaches(kind: DType) -> Scalar:
    """Say whether a value is not below a bound; NaN is not below it."""
    return Select(Binary("lt", Arg(0, kind), Arg(1, kind)), Constant(0, i32), Constant(1, i32))


def _where(asked: Scalar, views: tuple[View, ...], body: Body, context: Context) -> Body:
    """Execute statements in the warps that have a lane for which a condition holds."""
    flag = View(temporary("counts", i32, 1, context), as_expr(0))
    any_ = context.variable("any", 2)
    return (*compute(flag, asked, views, None, context, None), Vote(any_, flag, as_expr(1)), If(eq(any_, 1), body))


def _queued(step: Step, opened: Open, state: State, i: int, queue: Queue, context: Context) -> Body:
    """Copy a point to the queue; the point is to be folded if it is not below the bound."""
    ranking, bound = opened.fold.ranking, opened.bound
    assert ranking is not None and bound is not None
    before, views = views_at(step, state, context)
    to, kind = View(queue.values, as_expr(i)), queue.values.dtype
    point = substituted(step.body, tuple(Arg(j, ref.dtype) for j, ref in enumerate(step.reads)))
    copied = compute(to, at_place(point, state), views, None, context, state.link)
    value = substituted(ranking.value, (Arg(0, kind),))
    more: Scalar = Select(Binary("lt", value, Arg(1, value.dtype)), Constant(0, i32), Constant(1 << i, i32))
    there = exists(step, state, folded_dims(state))
    if there is not None:
        more = Binary("mul", more, Coordinate(there))  # a choice would be a branch
    total = Binary("add", Arg(2, i32), more)
    return (*before, *copied, *compute(queue.left, total, (to, bound, queue.left), None, context, state.link))


def _place(step: Step, state: State, dim: str) -> Expr:
    """Return a point's coordinate along a dim."""
    (axis,) = (a for a in state.windows[POINTS].axes if a.dim == dim)
    return axis.at(as_expr(0))


def _emptied(step: Step, opened: Open, state: State, places: Sequence[Expr], queue: Queue, context: Context) -> Body:
    """Fold the points in the queues: one point of every lane in each trip, until no lane has one.

    A lane whose queue is empty folds the lowest value at the highest index, which changes no state.

    Args:
        step, opened: the fold and its state.
        state: the lowering state at the group's first point.
        places: coordinates of the group's points along the folded dim.
        queue: the group's queue.
        context: the kernel's facts.
    """
    kind = queue.values.dtype
    front, place, bit = (_register(name, t, context) for name, t in (("front", kind), ("place", i32), ("bit", i32)))
    (dim,) = step.over
    any_, trip = context.variable("any", 2), context.variable("trip", len(places))
    body: Body = (
        Vote(any_, queue.left, as_expr(1)),
        Leave(eq(any_, 0)),
        Compute(front, number(lowest(opened).value, kind)),
        Compute(place, Constant(i32.limits[1], i32)),
        Compute(bit, Constant(0, i32)),
    )
    for i, at in enumerate(places):
        below = Binary("lt", Arg(0, i32), Constant(1 << i, i32))
        for to, taken in ((front, Arg(2, kind)), (place, Coordinate(at)), (bit, Constant(1 << i, i32))):
            views = (queue.left, to, View(queue.values, as_expr(i)))[: 3 if to is front else 2]
            body += (Compute(to, Select(below, Arg(1, to.buffer.dtype), taken), views, link=state.link),)
    rest = Binary("sub", Arg(0, i32), Arg(1, i32))
    held = tuple(register_view(context, state.windows[name], state, f"step {step.name}") for name in opened.roles)
    point, where = Arg(len(held), kind), Arg(len(held) + 1, i32)
    trees = [_at_register(tree, dim, where) for tree in with_point(opened.fold, point)]
    trees = [fused(without_branches(at_place(tree, state))) for tree in trees]
    ranking = opened.fold.ranking
    assert ranking is not None
    moved = [Arg(i, v.buffer.dtype) for i, v in enumerate(held)]
    changes = at_place(_at_register(substituted(ranking.changes, (*moved, point)), dim, where), state)
    changed, views = Select(changes, Constant(1, i32), Constant(0, i32)), (*held, front, place)
    body += (
        Compute(queue.left, rest, (queue.left, bit), link=state.link),
        *_where(
            changed,
            (*held, front, place),
            together(held, trees, (*held, front, place), None, context, state.link),
            context,
        ),
    )
    return (For(trip, as_expr(len(places)), body),)


def _at_register(tree: Scalar, dim: Expr, place: Scalar) -> Scalar:
    """Replace a coordinate in an expression by a read of a register."""
    if isinstance(tree, Coordinate):
        return place if tree.value == dim else tree
    return with_children(tree, tuple(_at_register(x, dim, place) for x in children(tree)))


def _risen(opened: Open, best: View, context: Context) -> Body:
    """Raise the bound to the value of rank `count` among the lanes' largest values, which are sorted over the lanes.

    Source: Batcher, Sorting networks and their applications, 1968: the bitonic sorter.
    """
    assert opened.bound is not None and opened.fold.ranking is not None and context.threads is not None
    kind, lane = best.buffer.dtype, Var(THREAD, context.threads) % LANES
    other = View(temporary("other", kind, 1, context), as_expr(0))
    mine, theirs = Arg(0, kind), Arg(1, kind)
    body: Body = ()
    size = 2
    while size <= LANES:
        stride = size // 2
        while stride:
            falling = eq(lane // stride % 2, lane // size % 2) if size < LANES else eq(lane // stride % 2, 0)
            larger = Select(Coordinate(falling), Binary("max", mine, theirs), Binary("min", mine, theirs))
            body += (
                Call(exchange(kind.nbytes), (best, other), lane=lane ^ stride, link=opened.link),
                Compute(best, larger, (best, other), link=opened.link),
            )
            stride //= 2
        size *= 2
    return (
        *body,
        Call(exchange(kind.nbytes), (best, other), lane=as_expr(opened.fold.ranking.count - 1), link=opened.link),
        Compute(opened.bound, Binary("max", mine, theirs), (opened.bound, other), link=opened.link),
    )
