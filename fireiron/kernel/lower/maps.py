"""Index maps in lowering: the box of a tensor that a tile of points reads, and the element that one point reads.

The window `points` has an axis for each dim; it says where the tile lies along the dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import attrs

from fireiron.algebra.expr import Expr, Index, Var, affine, and_, as_expr, free, ge, lt, proves, substitute
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.lower.window import Axis, Bound, Reading, Storage, Window, line
from fireiron.language.maps import box


def is_mapped(window: Window) -> bool:
    """Say whether an index expression computes some coordinate of a window."""
    return any(axis.map is not None for axis in window.axes)


def boxed(window: Window, points: Window, link: Link | None) -> Window:
    """Return the window of the box of a tensor that a tile of points reads. The box may reach beyond the tensor's ends.

    Raises:
        DecompositionError: `map-box`.
    """
    if not is_mapped(window):
        return window
    offsets = {a.dim: a.offset for a in points.axes}
    sizes = {a.dim: a.size for a in points.axes}

    def plain(axis: Axis) -> Axis:
        if axis.map is None:
            return axis
        try:
            found = box(axis.map.index, offsets, sizes)
        except DecompositionError as error:
            raise error.located(link) from None
        start, extent = found.start, found.extent
        one = extent == 1 or found.step == axis.map.step
        steps = None if one else line(extent, found.step // axis.map.step)
        along = None if found.step == 1 else line(extent, found.step)
        if axis.map.filled:  # a last chunk may reach beyond the buffer, which ends with the box that was loaded
            bounds = (Bound(start - axis.map.base, along, as_expr(axis.size) * axis.map.step),)
        else:
            bounds = (Bound(start, along, as_expr(0), lower=True), Bound(start, along, as_expr(axis.map.extent)))
        last = (extent - 1) * found.step
        bounds = tuple(b for b in bounds if not proves(b.condition()) or not proves(b.condition(last)))
        reads = tuple(d.name for d in free(axis.map.index) if isinstance(d, Var))
        return Axis(axis.dim, extent, (start - axis.map.base) // axis.map.step, steps, bounds, reads=reads)

    return evolve(window, axes=tuple(map(plain, window.axes)))


def ended(box_: Window, window: Window, points: Window, folded: Set[str]) -> Window:
    """Limit a box to the range of the folded dim, where only that dim changes the coordinate.

    Elements after this range belong to other results. The product's other factor is 0 there, but 0 times NaN or
    infinity is NaN. Windows that overlap, such as those of a convolution, share these elements, so their boxes are not
    limited.

    Args:
        box_: the box of a tensor that a tile of points reads.
        window: the tensor's window, with maps.
        points: the tile's window of points.
        folded: the dims that products sum over.
    """

    def of(axis: Axis, whole: Axis) -> Axis:
        if whole.map is None:
            return axis
        axes = {d: a for d in free(whole.map.index) if isinstance(d, Var) and (a := points.axis(d.name)) is not None}
        moving = [d for d, a in axes.items() if a.size != 1]
        split = affine(whole.map.index, list(axes))
        if len(moving) != 1 or moving[0].name not in folded or split is None:
            return axis
        (along,), steps = moving, split[0]
        others = [step for d, step in steps.items() if d != along]
        if steps[along] != 1 or not all(_apart(step, along.extent) for step in others):
            return axis
        held = axes[along]
        return evolve(axis, bounds=(*axis.bounds, *(b for b in held.bounds if not _holds(b, held))))

    return evolve(box_, axes=tuple(map(of, box_.axes, window.axes)))


def _apart(step: Index, extent: Index | None) -> bool:
    """Say whether one step of a dim is larger than the range of coordinates that the other dims cover."""
    if isinstance(step, int):
        step = abs(step)
    return extent is not None and step != 1 and proves(ge(as_expr(step), extent))


def _holds(bound: Bound, axis: Axis) -> bool:
    last = as_expr(axis.size) - 1
    return proves(bound.holds(as_expr(0))) and proves(bound.holds(last))


def by_points(window: Window, points: Window, dims: Sequence[str]) -> Window:
    """Return a window with the points' dims as axes, for elements of a tensor; a read outside the tensor gives zero.

    Args:
        window: the tensor's window.
        points: the tile of points.
        dims: the dims of the points that the index reads.

    Raises:
        DecompositionError: `map-box` where a read outside the tensor gives another value than zero.
    """
    axes = tuple(axis for dim in dims if (axis := points.axis(dim)) is not None)
    known = {d.name: d for a in window.axes if a.map is not None for d in free(a.map.index) if isinstance(d, Var)}
    index = tuple(known.setdefault(a.dim, Var(a.dim, a.size)) if a.map is None else a.map.index for a in window.axes)
    if any(a.map is not None and a.map.outside != 0 for a in window.axes):
        raise DecompositionError(
            "map-box",
            f"a tile reads no box of {window.storage.name}, and what lies outside is not 0",
            fix="tile the dims so that they read a box, or leave this load out",
        )
    reading = Reading(tuple(known[dim] for dim in dims), index, window.storage.shape)
    return Window(attrs.evolve(window.storage, reading=reading), axes)


def refuse_overlap(window: Window, points: Window, link: Link | None) -> None:
    """Raise an error for registers that are indexed by points, where several points read one element.

    Raises:
        DecompositionError: `map-registers`.
    """
    sizes = {a.dim: a.size for a in points.axes}
    box_ = boxed(window, points, link)
    for axis, whole in zip(window.axes, box_.axes, strict=True):
        if axis.map is None:
            continue
        dims = [d.name for d in free(axis.map.index) if isinstance(d, Var) and sizes.get(d.name, 1) != 1]
        points_along = as_expr(1)
        for d in dims:
            points_along = points_along * sizes[d]
        if as_expr(whole.size) != points_along:
            raise DecompositionError(
                "map-registers",
                f"points of {', '.join(sorted(dims))} share elements of {window.storage.name}, and each has registers "
                "of its own",
                fix=f"leave this load out, or cut all of {', '.join(sorted(dims))} but one to 1 above it",
                link=link,
            )


def loaded(storage: Storage, source: Window, box_: Window, slot: Expr | None) -> Window:
    """Return the window of a buffer that holds a box; coordinates are relative to the box's start."""

    def of(old: Axis, new: Axis) -> Axis:
        if old.map is None:
            return Axis(new.dim, new.size, as_expr(0))
        zeros = old.map.outside == 0
        first = old.map.base + new.offset * old.map.step
        step = old.map.step if new.steps is None else old.map.step * _stride(new.steps)
        kept = evolve(old.map, base=first, step=step, filled=old.map.filled or zeros)
        return Axis(new.dim, new.size, as_expr(0), map=kept)

    return Window(storage, tuple(map(of, source.axes, box_.axes)), slot)


def part_of(window: Window, other: Window) -> Window:
    """Return the window of a buffer for another read of the same tensor: the same rows, and a part of the columns.

    Args:
        window: the buffer's window; the buffer holds whole rows of the tensor.
        other: the other read's window of the tensor.
    """

    def of(mine: Axis, axis: Axis) -> Axis:
        return mine if axis.map is None else Axis(axis.dim, mine.size, as_expr(0), map=axis.map)

    return evolve(window, axes=tuple(map(of, window.axes, other.axes)))


def _stride(steps: Layout) -> int:
    assert isinstance(steps.stride, int)
    return steps.stride


def at_point(window: Window, places: Mapping[Expr, Expr]) -> tuple[Window, Expr]:
    """Return the window of the element that one point reads, and the condition that it lies inside the tensor.

    Args:
        window: a window with maps.
        places: the point's coordinates, by dim.
    """
    conditions: list[Expr] = []

    def plain(axis: Axis) -> Axis:
        if axis.map is None:
            return axis
        index = substitute(axis.map.index, {d: places[d] for d in free(axis.map.index) if d in places})
        if not axis.map.filled:
            conditions.extend((ge(index, 0), lt(index, axis.map.extent)))
        return Axis(axis.dim, 1, (index - axis.map.base) // axis.map.step)

    axes = tuple(map(plain, window.axes))
    return evolve(window, axes=axes), and_(*conditions)


def outside_of(window: Window) -> float:
    """Return the value of a read outside the tensor."""
    return next((a.map.outside for a in window.axes if a.map is not None), 0.0)
