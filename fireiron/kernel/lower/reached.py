"""Reach of a loop: the chunks of a dim with any point that the masks of its folds do not exclude."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

from fireiron.algebra.expr import (
    Compare,
    Element,
    Expr,
    Var,
    affine,
    as_expr,
    ceil_div,
    free,
    lt,
    maximum,
    minimum,
    substitute,
    terms_of,
)
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import THREAD
from fireiron.kernel.lower.context import Context, State
from fireiron.kernel.lower.progress import folds_dim, has_dim
from fireiron.kernel.lower.window import POINTS, Axis, Cut
from fireiron.language.levels import Block, Warp
from fireiron.language.maps import box
from fireiron.language.reach import common_conditions

FEW = 16  # most array elements of a tile whose extremes may bound a loop


def reached(dim: str, part: Cut, state: State, context: Context) -> tuple[Expr, Expr]:
    """Return the first chunk with points that masks do not exclude, and the number of chunks up to the last such one.

    All threads of a block, and all blocks of a cluster, take the same trips, since they synchronise in them.
    """
    progress = state.progress
    assert progress is not None
    begin, trips = as_expr(0), as_expr(part.trips)
    steps = [s for s in progress.active if has_dim(s, dim)]
    makers = {out.name: s for s in progress.active for out in s.outs}
    outputs = {t.name for t in progress.program.outputs}
    adds = progress.adds
    if adds is not None:  # a chunk that adds 0 may be skipped
        outputs -= adds.outputs
    folds = [s for s in steps if folds_dim(s, dim) or (adds is not None and folds_dim(s, adds.dim))]
    written = any(out.name in outputs for s in steps if not folds_dim(s, dim) for out in s.outs)
    if state.level not in (Block, Warp) or context.joined > 1 or written:
        return begin, trips
    axes = {a.dim: a for a in state.windows[POINTS].axes}
    # Units of a split above the loop take as many trips as the one that needs most.
    ends = _ends(axes[dim].offset, context)
    if ends is None or any(_of_threads(a.offset, context) for a in axes.values() if a.dim != dim):
        return begin, trips
    size = as_expr(part.size)
    for condition in common_conditions(folds, makers):
        condition = _at_tile(condition, axes, dim)
        if condition is None:
            continue
        dims = {v.name: v for v in free(condition) if isinstance(v, Var) and v.name in axes}
        split = affine(condition.right - condition.left, tuple(dims.values()))
        if split is None or dim not in dims:
            continue
        slopes, most = split
        slope = slopes.pop(dims[dim])
        for v, along in slopes.items():  # the largest difference at any point of the tile
            axis = axes[v.name]
            far = axis.offset if isinstance(along, int) and along < 0 else axis.offset + (as_expr(axis.size) - 1)
            most = most + far * along
        known = isinstance(slope, int) and all(
            isinstance(c, int) and (c <= 0 or isinstance(axes[v.name].size, int)) for v, c in slopes.items()
        )
        if not known or not isinstance(slope, int) or slope == 0 or any(axes[v].steps is not None for v in dims):
            continue
        if slope < 0:
            last = most if slope == -1 else (most - 1) // -slope + 1
            trips = minimum(trips, ceil_div(maximum(last - ends[0], 0), size))
        else:
            first = 1 - most if slope == 1 else (slope - most) // slope
            begin = maximum(begin, maximum(first - ends[1], 0) // size)
    return begin, trips if begin == as_expr(0) else maximum(trips - begin, 0)


def _of_threads(e: Expr, context: Context) -> bool:
    return any(v.name == THREAD for v in free(context.expanded(e)))


def _ends(offset: Expr, context: Context) -> tuple[Expr, Expr] | None:
    """Return the smallest and the largest coordinate at which units of a block start; None where they are not known."""
    units = [v for v in free(offset) if isinstance(v, Var) and _of_threads(v, context)]
    split = affine(offset, tuple(units))
    if split is None or not all(isinstance(n, int) and n >= 0 for n in split[0].values()):
        return None
    if any(v.extent is None for v in units):
        return None
    lasts = {v: as_expr(v.extent) - 1 for v in units if v.extent is not None}
    return substitute(offset, dict.fromkeys(units, 0)), substitute(offset, lasts)


def _at_tile(condition: Compare, axes: Mapping[str, Axis], dim: str) -> Compare | None:
    """Replace dims by the tile's coordinate where it has only one, and array elements by their extremes in it.

    Returns:
        A condition that holds wherever the given one holds at some point of the tile; None where none is found.
    """
    places: dict[Expr, Expr] = {}
    for v in free(condition):
        axis = axes.get(v.name) if isinstance(v, Var) else None
        if axis is not None and axis.size == 1 and v.name != dim:
            places[v] = axis.at(as_expr(0))
    terms, constant = terms_of(as_expr(condition.right) - condition.left)
    most: Expr = as_expr(constant)
    for term, weight in terms:
        if not isinstance(term, Element):
            most = most + substitute(term, places) * weight
            continue
        found = _extreme(term, axes, dim, largest=weight > 0)
        if found is None:
            return None
        most = most + found * weight
    moved = lt(0, most)
    return moved if isinstance(moved, Compare) else None


def _extreme(element: Element, axes: Mapping[str, Axis], dim: str, largest: bool) -> Expr | None:
    """Return the largest or smallest array element that points of the tile read, where these are few."""
    offsets = {a.dim: a.at(as_expr(0)) for a in axes.values()}
    sizes = {a.dim: a.size for a in axes.values()}
    if any(isinstance(v, Var) and v.name == dim for v in free(element)):
        return None
    try:
        boxes = [box(e, offsets, sizes) for e in element.index]
    except DecompositionError:
        return None
    counts = [b.extent for b in boxes]
    if not all(isinstance(n, int) for n in counts) or prod(n for n in counts if isinstance(n, int)) > FEW:
        return None
    found: Expr | None = None
    for steps in product(*(range(n) for n in counts if isinstance(n, int))):
        at = (b.start + n * b.step for b, n in zip(boxes, steps, strict=True))
        inside = (minimum(e, as_expr(n) - 1) for e, n in zip(at, element.shape, strict=True))
        one = Element(element.array, tuple(inside), element.shape, element.extent, element.lower)
        found = one if found is None else maximum(found, one) if largest else minimum(found, one)
    return found
