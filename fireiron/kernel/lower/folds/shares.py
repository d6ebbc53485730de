"""Shares of a tile that blocks finish: runs of columns or rows for which each thread has the same registers."""

from __future__ import annotations

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, affine, as_expr, as_int
from fireiron.algebra.layout import Layout, of_leaves
from fireiron.algebra.layout_ops import coalesce
from fireiron.kernel.analysis.ownership import SPAN, Ownership
from fireiron.kernel.lower.context import Context
from fireiron.kernel.lower.folds.portions import placed
from fireiron.kernel.lower.window import Window


@attrs.frozen
class Share:
    """Describe how a tile is shared out: the first blocks that share it finish equal runs of columns or rows.

    Args:
        count: number of blocks that finish a part.
        dim: the dim along which the tile is cut; "" where one block finishes the whole tile.
        size: extent of a part.
        ownership: the threads and registers of a part's elements.
        stride: distance in registers from one part to the next.
        steps: register of a part -> steps from its first one.
        run: number of consecutive registers of a part that are consecutive in the whole tile too.
    """

    count: int
    dim: str
    size: int
    ownership: Ownership
    stride: int
    steps: Layout
    run: int


def divide(held: Ownership, output: Window, most: int, context: Context) -> Share:
    """Divide a tile's columns, else its rows, into the most parts of which each thread holds the same registers.

    Args:
        held: the ownership of the tile.
        output: the tile in C.
        most: largest number of parts.
        context: the kernel's context; it makes the variables' names.
    """
    whole = Share(1, "", 0, held, 0, Layout(held.size, 1), held.size)
    found = whole
    if held.opaque or held.access.limits or held.access.guards:
        return found
    for axis in (len(output.axes) - 1, len(output.axes) - 2):
        for count in range(most, found.count, -1):
            share = _cut(held, output, axis, count, context)
            if share is not None:
                found = share
                break
    return found


def _cut(held: Ownership, output: Window, axis: int, count: int, context: Context) -> Share | None:
    """Cut the outermost register loop along an axis; None where the parts would not be tiles."""
    access, extent, rank = held.access, output.axes[axis].size, len(output.axes)
    if not isinstance(extent, int) or extent % count:
        return None
    slopes = affine(access.coordinates[axis], [loop.var for loop in access.loops])
    if slopes is None:
        return None
    along = [i for i, loop in enumerate(access.loops) if as_int(as_expr(slopes[0][loop.var])) not in (None, 0)]
    if not along:
        return None
    which = max(along, key=lambda i: as_int(as_expr(slopes[0][access.loops[i].var])) or 0)
    trips = access.extents[which]
    if trips % count:
        return None
    loops, kept, weight = list(access.loops), list[tuple[int, int]](), access.count
    for i in reversed(range(len(loops))):
        kept.append((trips // count if i == which else access.extents[i], weight))
        weight *= access.extents[i]
    stride = next(n * step for i, (n, step) in zip(reversed(range(len(loops))), kept, strict=True) if i == which)
    steps = coalesce(of_leaves([(access.count, 1), *kept]))
    loop_ = loops[which]
    var = context.variable(loop_.var.name, trips // count)
    fewer = attrs.evolve(loop_, var=var, trips=as_expr(trips // count))
    loops = [x for i, x in enumerate(loops) if i != which or trips > count]
    loops = [fewer if x is loop_ else x for x in loops]
    place: dict[Expr, Expr] = {loop_.var: var if trips > count else as_expr(0)}
    made = Ownership(
        placed(access, place, tuple(loops)), placed(held.written, place, tuple(loops)), held.threads,
        "the sum of the ways",
    )  # fmt: skip
    keys, one, unit = access.keys(held.threads), made.access.keys(held.threads), SPAN ** (rank - 1 - axis)
    registers = np.asarray(steps(np.arange(made.size)) if made.size > 1 else np.zeros(1, np.int64))
    size = extent // count
    if (one // unit % SPAN >= size).any():
        return None
    if any((keys[:, p * stride + registers] != one + p * size * unit).any() for p in range(count)):
        return None
    run = steps.leaves[0][0] if steps.leaves[0][1] == 1 else 1
    assert isinstance(run, int)
    return Share(count, output.axes[axis].dim, size, made, stride, steps, run)
