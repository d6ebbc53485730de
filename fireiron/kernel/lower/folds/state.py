"""The state of a fold in a thread's registers: adding points and other states to it, and computing results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Expr, as_expr, ne, substitute
from fireiron.algebra.scalar import Arg, Coordinate, Scalar, Select, number, substituted
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Compute, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.ranked import Ranked
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.registers import each_register, temporary
from fireiron.kernel.lower.storage import register_storage
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.language.contractions import kept_in_order
from fireiron.language.folds import Fold, add_of, identity_of
from fireiron.language.levels import RF, Block
from fireiron.language.steps import Step


@attrs.define(eq=False)
class Open:
    """Hold a fold while points are folded into it.

    Args:
        step: the step with the fold.
        windows: the state's scalars in registers, by role.
        link: the author's link that opened the fold.
        loops: the loops around the fold.
        places: the coordinate of a thread's first point along each of the step's dims; set when the first point is
            folded.
        guards: the conditions that a thread has any points; set when the first point is folded.
        results: the step's outputs in registers; set when the fold is closed.
        whole: whether every thread that holds a part of a value already holds the whole value.
        apart: the coordinates at which the chunks of an online loop start. Units of a split above the loop start at
            different coordinates: each unit folds separately, and the units' states are combined after the loop.
        ranked: for a fold that ranks points (topk), the list that each warp keeps; set when the first point is folded,
            if the lanes of a warp have different points of one result.
        beside: whether points are also folded into the state of each lane, besides the warp's list.
    """

    step: Step
    windows: dict[str, Window]
    link: Link | None = None
    loops: tuple[RegisterLoop, ...] = ()
    places: dict[str, Expr] = attrs.field(factory=dict[str, Expr])
    guards: tuple[Expr, ...] = ()
    results: dict[str, Window] = attrs.field(factory=dict[str, Window])
    whole: bool = False
    apart: Mapping[str, Expr] = {}
    ranked: Ranked | None = None
    beside: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """List the roles of the state's scalars."""
        return tuple(self.windows)

    @property
    def fold(self) -> Fold:
        """Return the step's fold."""
        assert self.step.fold is not None
        return self.step.fold

    @property
    def storages(self) -> tuple[Storage, ...]:
        """List the registers of the state's scalars."""
        return tuple(w.storage for w in self.windows.values())


@attrs.frozen(eq=False)
class Shared:
    """Hold a fold with parts in several blocks, and the lowering state in which this block's part is complete."""

    opened: Open
    state: State


def open_fold(step: Step, state: State, context: Context, link: Link | None) -> Open:
    """Make the registers of a fold's state: one value for each point of the step's kept dims at this place."""
    fold = step.fold
    assert fold is not None
    extents = [(d.name, state.residual.extents[d.name]) for d in kept_in_order(step)]
    axes = tuple(Axis(dim, 0 if extent is None else extent, as_expr(0)) for dim, extent in extents)
    windows: dict[str, Window] = {}
    for i, dtype in enumerate(fold.dtypes):
        name = step.name.lower() if len(fold.dtypes) == 1 else f"{step.name.lower()}_{i}"
        storage = register_storage(name, Window(_nowhere(), axes), RF, dtype, state, context, link)
        windows[f"{step.name} state {i}"] = Window(storage, axes)
    return Open(step, windows, link, state.loops)


def _nowhere() -> Storage:
    return Storage("", RF, f32, (), (), as_expr(0), Block)


def open_sum(window: Window, link: Link | None) -> Open:
    """Return the fold that adds the partial sums of a product; each thread holds its own in a window of registers."""
    dtype = window.storage.dtype
    return Open(Step("acc", (), (), Arg(0, dtype), add_of(dtype)), {"C": window}, link)


def begin(opened: Open, context: Context) -> Body:
    """Set the state to the fold's identity."""
    body: Body = ()
    for storage, identity in zip(opened.storages, identity_of(opened.fold), strict=True):
        known(opened)
        value = number(identity.value, identity.dtype)
        body += each_register(storage, context, lambda r, s=storage, v=value: (Compute(View(buffer_of(s), r), v),))
    return body


def begin_points(opened: Open, context: Context) -> Body:
    """Set the state to the fold's identity; of a fold that ranks points, empty the warp's list."""
    if opened.ranked is None:
        return begin(opened, context)
    return (*(begin(opened, context) if opened.beside else ()), *opened.ranked.begin())


def known(opened: Open) -> None:
    """Raise an error where a fold's state is read that no link below computes.

    Raises:
        DecompositionError: `ownership-unknown`.
    """
    if any(s.ownership is None for s in opened.storages):
        raise DecompositionError(
            "ownership-unknown",
            f"no link below computes step {opened.step.name}",
            fix="close the chain by .done() below a load of the step's operands",
        )


def operands_of(step: Step, held: int) -> tuple[Scalar, ...]:
    """Return the state after one more point, as expressions of the state and of the step's reads."""
    fold = step.fold
    assert fold is not None
    body = substituted(step.body, [Arg(i + held, ref.dtype) for i, ref in enumerate(step.reads)])
    mine = [Arg(i, dtype) for i, dtype in enumerate(fold.dtypes)]
    made = with_point(fold, body)
    if step.where is None or condition_of(step) is not None:
        return tuple(made)
    present = substituted(step.where, [Arg(i + held, ref.dtype) for i, ref in enumerate(step.reads)])
    return tuple(Select(present, new, old) for new, old in zip(made, mine, strict=True))


def with_point(fold: Fold, point: Scalar) -> list[Scalar]:
    """Return the state after one more point, as expressions of the state's scalars and of the point."""
    mine = [Arg(i, dtype) for i, dtype in enumerate(fold.dtypes)]
    if fold.insert:
        return [substituted(tree, (*mine, point)) for tree in fold.insert]
    lifted = [substituted(tree, (point,)) for tree in fold.lift]
    return [substituted(tree, (*mine, *lifted)) for tree in fold.combine]


def lifted(step: Step) -> tuple[Scalar, ...]:
    """Return the state of one point, as expressions of the step's reads."""
    assert step.fold is not None
    return tuple(substituted(tree, (step.body,)) for tree in step.fold.lift)


def condition_of(step: Step) -> Expr | None:
    """Return the condition on indices that a point is folded; None where it depends on values or always holds."""
    return ne(step.where.value, 0) if isinstance(step.where, Coordinate) else None


def together(
    held: Sequence[View],
    trees: Sequence[Scalar],
    views: tuple[View, ...],
    mask: Expr | None,
    context: Context,
    link: Link | None,
) -> Body:
    """Assign all scalars of a state at once: each new value is computed from the old values."""
    if len(held) == 1:
        return compute(held[0], trees[0], views, mask, context, link)
    fresh = [View(temporary("next", v.buffer.dtype, 1, context), as_expr(0)) for v in held]
    body: Body = ()
    for to, tree in zip(fresh, trees, strict=True):
        body += compute(to, tree, views, mask, context, link)
    for to, source in zip(held, fresh, strict=True):
        body += (Compute(to, Arg(0, to.buffer.dtype), (source,), mask, link),)
    return body


def joined(opened: Open, held: Sequence[View], others: Sequence[View], context: Context) -> Body:
    """Combine a thread's state with another state."""
    body = together(held, opened.fold.combine, (*held, *others), None, context, opened.link)
    for stage in opened.fold.settle:
        body += together(held, stage, tuple(held), None, context, opened.link)
    return body


def finish(opened: Open, state: State, context: Context) -> Body:
    """Compute the step's outputs from the folded state."""
    fold, step = opened.fold, opened.step
    windows = list(opened.windows.values())
    if fold.finish == tuple(Arg(i, dtype) for i, dtype in enumerate(fold.dtypes)):
        opened.results = {out.name: w for out, w in zip(step.outs, windows, strict=True)}
        return ()
    (first, *_) = opened.storages
    made: list[tuple[Storage, Scalar]] = []
    for out, tree in zip(step.outs, fold.finish, strict=True):
        storage = register_storage(out.name.lower(), windows[0], RF, tree.dtype, state, context, opened.link)
        storage.ownership, storage.size = first.ownership, first.size
        opened.results[out.name] = Window(storage, tuple(Axis(a.dim, a.size, as_expr(0)) for a in windows[0].axes))
        made.append((storage, tree))

    def finished(r: Expr) -> Body:
        views = tuple(View(buffer_of(s), r) for s in opened.storages)
        return tuple(
            x
            for storage, tree in made
            for x in compute(View(buffer_of(storage), r), tree, views, None, context, opened.link)
        )

    return each_register(first, context, finished)


def note_places(opened: Open, places: dict[str, Expr], inside: State) -> None:
    """Record the coordinates of a thread's first point (at index 0 of inner loops), and which threads have any."""
    if not opened.places:
        first = {loop.var: as_expr(0) for loop in inside.loops if loop not in opened.loops}
        opened.places.update({dim: substitute(place, first) for dim, place in places.items()})
        opened.guards = inside.guards
