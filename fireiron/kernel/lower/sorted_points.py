"""Points of a fold that takes several at once (topk of few points): a thread sorts them, then combines two states.

To insert 8 points one after another into a state of 8 takes 120 choices; to sort them takes 38, and to combine two
states 32.
"""

from __future__ import annotations

from fireiron.algebra.branches import without_branches
from fireiron.algebra.expr import Expr, Var, as_expr, free
from fireiron.algebra.fused import fused
from fireiron.algebra.scalar import Arg, Coordinate, Select
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Compute, For, View
from fireiron.kernel.lower.context import Body, Context, State, descend, register_view
from fireiron.kernel.lower.folds.state import Open, joined, lifted, together
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.step_points import at_place, exists, folded_dims, in_registers, views_at
from fireiron.kernel.lower.window import cut
from fireiron.language.folds import identity_of
from fireiron.language.steps import Step


def fold_several(step: Step, opened: Open, state: State, context: Context, dim: str, size: int) -> Body | None:
    """Fold the points of each thread into its state, several at once.

    Args:
        step: the step with the fold.
        opened: the fold's state.
        state: the lowering state at a thread's points.
        context: the kernel's facts.
        dim: the dim along which the thread has several points.
        size: number of points along the dim.

    Returns:
        None where a thread does not have the points in registers.
    """
    fold, link = opened.fold, opened.link
    assert fold.several is not None
    count = fold.several.count
    groups, rest = divmod(size, count)
    if not in_registers(views_at(step, _at(state, dim, size, as_expr(0)), context)[1]):
        return None
    held = [register_view(context, state.windows[name], state, f"step {step.name}") for name in opened.roles]
    parts = [temporary("point", dtype, count, context) for dtype in fold.dtypes[::count]]
    points = [View(part, as_expr(i)) for part in parts for i in range(count)]
    nothing = identity_of(fold)[::count]

    sort: Body = ()
    for stage in fold.several.stages:
        moved = [i for i, (tree, to) in enumerate(zip(stage, points, strict=True)) if tree != Arg(i, to.buffer.dtype)]
        sort += together([points[i] for i in moved], [stage[i] for i in moved], tuple(points), None, context, link)

    def taken(first: Expr, present: int) -> Body:
        """Add a group of points to the state, where so many of them are a thread's."""
        e = context.variable("e", present)
        here = _at(state, dim, size, first + e)
        before, views = views_at(step, here, context)
        mask = exists(step, here, folded_dims(here))
        body = before
        for part, tree, none in zip(parts, lifted(step)[::count], nothing, strict=True):
            tree = fused(without_branches(at_place(tree, here)))
            tree = tree if mask is None else Select(Coordinate(mask), tree, none)
            body += compute(View(part, e), tree, views, None, context, link)
        body = (For(e, as_expr(present), body, unroll=True),)
        missing = (Compute(View(part, as_expr(i)), none) for part, none in zip(parts, nothing, strict=True)
                   for i in range(present, count))  # fmt: skip
        return (*body, *missing, *sort, *joined(opened, held, points, context))

    g = context.variable("g", groups)
    body = (For(g, as_expr(groups), taken(g * count, count), unroll=True),) if groups else ()
    return (*body, *(taken(as_expr(groups * count), rest) if rest else ()))


def _at(state: State, dim: str, size: int, one: Expr) -> State:
    """Return the lowering state at one of a thread's points."""
    counted = tuple(v for v in free(one) if isinstance(v, Var))
    loops = (RegisterLoop(v, as_expr(v.extent or 1), True, state.link) for v in counted)
    here = evolve(state, loops=(*state.loops, *loops))
    return descend(here, {dim: cut(1, size)}, {dim: one})
