"""Points that a fold can do without: where few points change a state, warps pass by the others.

A fold that ranks its points keeps the first `count` of them. A point is not needed if `count` others of the same result
have larger values. The largest values of a warp's lanes belong to as many points: the one of rank `count` among them is
a bound. Points below it change no result, wherever their threads' own states would still take them.

Of each chunk that a thread has in registers, groups of points are reduced to their largest value first. A vote of the
warp on the chunk, then one on each group, then one on each point say where any lane has a point that counts; all others
cost a comparison. The bound rises before points of a chunk are folded.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Var, as_expr, eq, free
from fireiron.algebra.scalar import Arg, Binary, Constant, Coordinate, Scalar, Select, substituted
from fireiron.atoms.table import exchange
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import THREAD, Call, Compute, For, If, View, Vote
from fireiron.kernel.lower.context import Body, Context, State, descend, register_view
from fireiron.kernel.lower.folds.places import LANES, tabulated
from fireiron.kernel.lower.folds.state import Open, lowest
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
from fireiron.language.levels import Thread
from fireiron.language.steps import Step

GROUP = 8  # points that one vote passes by


def fold_points(step: Step, opened: Open, state: State, context: Context, carried: bool) -> Body:
    """Fold the points of each thread into its state.

    Args:
        step: the fold.
        opened: its state.
        state: the place in the tree.
        context: the kernel's.
        carried: whether a loop brings further points to the same state.
    """
    inside, owned = at_points(step, state, context)
    extents = {a.dim: a.size for a in inside.windows[POINTS].axes}
    wide = [d.name for d in step.dims if extents[d.name] != 1]
    voting = owned is not None and not owned.loops and not owned.guards and state.level.name != Thread.name
    ranking = opened.fold.ranking
    if ranking is None or step.where is not None or len(wide) != 1 or not voting or not _apart(opened, context):
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
    """Say whether the lanes of each warp have points of their own, and all of them belong to one result."""
    if context.threads is None or context.threads % LANES or not opened.places:
        return False
    table = tabulated(opened, context.threads, context)
    kept, over = table.kept.reshape(-1, LANES), np.sort(table.over.reshape(-1, LANES), axis=1)
    return bool((kept == kept[:, :1]).all() and (over[:, 1:] > over[:, :-1]).all() and table.busy.all())


def _ranked(step: Step, opened: Open, state: State, context: Context, dim: str, size: int) -> Body:
    """Find the largest value of each group of points, and fold the groups that may count.

    Args:
        step, opened: the fold.
        state: inside a thread, at its points.
        context: the kernel's.
        dim: the one along which the thread has several points.
        size: how many.
    """
    bound, width = opened.bound, gcd(size, GROUP)
    assert bound is not None
    kind, groups = bound.buffer.dtype, size // width
    largest = temporary("largest", kind, groups, context)
    reach, best = (View(temporary(name, kind, 1, context), as_expr(0)) for name in ("reach", "best"))
    first = register_view(context, state.windows[opened.roles[0]], state, f"step {step.name}")
    higher = Binary("max", Arg(0, kind), Arg(1, kind))
    g, g2, g3 = (context.variable("g", groups) for _ in range(3))
    e, e2 = (context.variable("e", width) for _ in range(2))

    def at(group: Var, one: Var) -> State:
        loops = (RegisterLoop(v, as_expr(v.extent or 1), True, state.link) for v in (group, one))
        here = evolve(state, loops=(*state.loops, *loops))
        return descend(here, {dim: cut(1, size)}, {dim: group * width + one})

    def each(var: Var, body: Body) -> Body:
        return (For(var, as_expr(var.extent or 1), body, unroll=True),)

    point = at(g, e)
    before, value, views, mask = _value(step, opened, point, context)
    mine = View(largest, g)
    present: Body = ()
    if mask is not None and e in free(mask):
        value = Select(Coordinate(mask), value, lowest(opened))
    elif mask is not None:
        present = compute(
            mine, Select(Coordinate(mask), Arg(0, kind), lowest(opened)), (mine,), None, context, state.link
        )
    # The state is the last argument of the maximum: what reads the point stays as it is.
    taken = compute(mine, Binary("max", value, Arg(len(views), kind)), (*views, mine), None, context, state.link)
    found = (Compute(mine, lowest(opened)), *each(e, (*before, *taken)), *present)
    body: Body = (
        Compute(best, higher, (reach, first), link=state.link),
        *_risen(opened, best, context),
        *each(
            g3,
            _where(
                _reaches(kind), (View(largest, g3), bound), each(e2, _one(step, opened, at(g3, e2), context)), context
            ),
        ),
    )
    return (
        *each(g, found),
        Compute(reach, lowest(opened)),
        *each(g2, (Compute(reach, higher, (reach, View(largest, g2))),)),
        *_where(_reaches(kind), (reach, bound), body, context),
    )


def _value(
    step: Step, opened: Open, state: State, context: Context
) -> tuple[Body, Scalar, tuple[View, ...], Expr | None]:
    """Give the value by which a point is ranked, what it reads, and the condition under which the point exists."""
    ranking = opened.fold.ranking
    assert ranking is not None
    before, views = views_at(step, state, context)
    value = at_place(substituted(ranking.value, (step.body,)), state)
    return before, value, views, exists(step, state, folded_dims(state))


def _reaches(kind: DType) -> Scalar:
    """Say whether a value is not below a bound: what is no number is not."""
    return Select(Binary("lt", Arg(0, kind), Arg(1, kind)), Constant(0, i32), Constant(1, i32))


def _where(asked: Scalar, views: tuple[View, ...], body: Body, context: Context) -> Body:
    """Run statements in the warps that have a lane for which a condition holds."""
    flag = View(temporary("counts", i32, 1, context), as_expr(0))
    any_ = context.variable("any", 2)
    return (*compute(flag, asked, views, None, context, None), Vote(any_, flag, as_expr(1)), If(eq(any_, 1), body))


def _one(step: Step, opened: Open, state: State, context: Context) -> Body:
    """Fold one point, if it is not below the bound and changes any lane's state."""
    ranking, bound = opened.fold.ranking, opened.bound
    assert ranking is not None and bound is not None
    before, value, views, mask = _value(step, opened, state, context)
    held = tuple(register_view(context, state.windows[name], state, f"step {step.name}") for name in opened.roles)
    count, moved = len(views), [Arg(i + len(views), v.buffer.dtype) for i, v in enumerate(held)]
    changes = at_place(substituted(ranking.changes, (*moved, step.body)), state)
    changed: Scalar = Select(changes, Constant(1, i32), Constant(0, i32))
    if mask is not None:
        changed = Select(Coordinate(mask), changed, Constant(0, i32))
    below = Binary("lt", value, Arg(count + len(held), value.dtype))
    asked = Select(below, Constant(0, i32), changed)
    return (*before, *_where(asked, (*views, *held, bound), accumulate(step, opened, state, context), context))


def _risen(opened: Open, best: View, context: Context) -> Body:
    """Raise the bound to the value of rank `count` among the lanes' largest: they are sorted over the lanes.

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
