"""Narrowing a register Move to the tile that each unit of a level holds, from the tensor's ownership."""

from __future__ import annotations

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, as_expr
from fireiron.base.errors import DecompositionError
from fireiron.base.text import by
from fireiron.kernel.analysis.ownership import ABSENT, fit
from fireiron.kernel.lower.context import Context, State, units_of
from fireiron.kernel.lower.window import Axis, Storage, Window, line, narrowed
from fireiron.language.decompositions import Own


def own_units(link: Own, state: State, context: Context, storage: Storage) -> State:
    """Narrow the state to the rectangle of elements that this thread's unit of `link.level` holds.

    Raises:
        DecompositionError: `own-level` where units hold no equal rectangles at regular places.
    """
    panel = next((w for w in state.windows.values() if w.storage is storage), None)
    sizes_of = () if panel is None else tuple(axis.size for axis in panel.axes)
    if panel is not None and sizes_of != storage.shape:
        raise DecompositionError(
            "own-level",
            f"own({link.level}) gives each unit what it holds of all of {storage.name}, {by(storage.shape)}, and the "
            f"tile above takes {by(sizes_of)} of it",
            fix=f"own({link.level}) first, then tile what each unit holds",
        )
    level, ownership = link.level, storage.ownership
    assert ownership is not None and context.threads is not None
    units = units_of(level, state, context, context.threads // (level.size or 1), None)
    keys = ownership.access.keys(context.threads)
    if len(keys) == 1:
        keys = np.broadcast_to(keys, (context.threads, keys.shape[1]))
    size = level.size or 1
    rank, span = len(storage.shape), ownership.access.span
    starts: list[list[int]] = []
    extents: set[tuple[int, ...]] = set()
    for u in range(units.count):
        mine = keys[u * size : (u + 1) * size]
        mine = mine[mine < ABSENT]  # where tiles do not divide the extent, some registers hold no element
        if not len(mine):
            raise _irregular(link, storage, ownership.owner)
        digits = [mine // span ** (rank - 1 - d) % span for d in range(rank)]
        low = [int(d.min()) for d in digits]
        extent = tuple(int(d.max()) + 1 - x for d, x in zip(digits, low, strict=True))
        held = np.zeros(extent, dtype=np.bool_)
        held[tuple(d - x for d, x in zip(digits, low, strict=True))] = True
        if not held.all():
            raise _irregular(link, storage, ownership.owner)
        starts.append(low)
        extents.add(extent)
    if len(extents) != 1:
        raise _irregular(link, storage, ownership.owner)
    (extent,) = extents
    offsets: list[Expr] = []
    for d in range(rank):
        column = np.array([s[d] for s in starts], dtype=np.int64)
        steps = fit(column - column[0])
        if steps is None:
            raise _irregular(link, storage, ownership.owner)
        offsets.append(as_expr(int(column[0])) + (steps(units.index) if steps.size > 1 else 0))

    def owned(found: dict[str, Window]) -> dict[str, Window]:
        return {role: inside_of(window) for role, window in found.items()}

    def inside_of(window: Window) -> Window:
        return attrs.evolve(window, axes=tuple(map(_inside_along, window.axes, extent, offsets)))

    sizes = tuple((dim, n) for (dim, _), n in zip(state.residual.sizes, extent, strict=True))
    inside = attrs.evolve(
        state,
        windows=owned(state.windows),
        whole=owned(state.whole),
        residual=attrs.evolve(state.residual, level=level, sizes=sizes),
    )
    return attrs.evolve(inside.under(f"own {level}", link.link), position=units.position, width=units.width)


def _irregular(link: Own, storage: Storage, owner: str) -> DecompositionError:
    return DecompositionError(
        "own-level",
        f"{owner} gives the units of {link.level} no equal tiles of {storage.name} at regular places",
        fix="use own(Thread), or stage for the whole block",
    )


def _inside_along(axis: Axis, extent: int, start: Expr) -> Axis:
    """Narrow an axis to a run of its elements; only an axis in chunks then has steps."""
    if axis.steps is not None or any(b.steps is not None for b in axis.bounds):
        return narrowed(axis, start, line(extent, 1))
    bounds = tuple(attrs.evolve(b, offset=b.offset + start) for b in axis.bounds)
    return Axis(axis.dim, extent, axis.offset + start, None, bounds)
