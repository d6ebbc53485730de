"""Reach of a loop: the chunks of a dim in which masks leave any point for its folds."""

from __future__ import annotations

from fireiron.algebra.expr import Expr, Var, affine, as_expr, ceil_div, free, maximum, minimum
from fireiron.kernel.lower.context import Context, State
from fireiron.kernel.lower.progress import folds_dim, has_dim
from fireiron.kernel.lower.window import POINTS, Cut
from fireiron.language.levels import Block
from fireiron.language.reach import common_conditions


def reached(dim: str, part: Cut, state: State, context: Context) -> tuple[Expr, Expr]:
    """Give the first chunk with points that masks leave for the folds of a loop, and the number of such chunks.

    All threads of a block, and all blocks of a cluster, take the same trips, since they synchronise in them.
    """
    progress = state.progress
    assert progress is not None
    begin, trips = as_expr(0), as_expr(part.trips)
    steps = [s for s in progress.active if has_dim(s, dim)]
    makers = {out.name: s for s in progress.active for out in s.outs}
    outputs = {t.name for t in progress.program.outputs}
    written = any(out.name in outputs for s in steps if not folds_dim(s, dim) for out in s.outs)
    if state.level != Block or context.joined > 1 or written:
        return begin, trips
    axes = {a.dim: a for a in state.windows[POINTS].axes}
    size = as_expr(part.size)
    for condition in common_conditions([s for s in steps if folds_dim(s, dim)], makers):
        dims = {v.name: v for v in free(condition) if isinstance(v, Var) and v.name in axes}
        split = affine(condition.right - condition.left, tuple(dims.values()))
        if split is None or dim not in dims:
            continue
        slopes, most = split
        slope = slopes.pop(dims[dim])
        for v, along in slopes.items():  # the most that the difference is at any point of the tile
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
            trips = minimum(trips, ceil_div(maximum(last - axes[dim].offset, 0), size))
        else:
            first = 1 - most if slope == 1 else (slope - most) // slope
            begin = maximum(begin, maximum(first - axes[dim].offset, 0) // size)
    return begin, trips if begin == as_expr(0) else maximum(trips - begin, 0)
