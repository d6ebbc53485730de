"""Waves: the tiles of a grid that are computed at the same time, and the order of tiles."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fireiron.algebra.arch import arch
from fireiron.base.errors import FireironError
from fireiron.base.text import count
from fireiron.show.lowering import lowered_of
from fireiron.show.svg import Drawing, hue

if TYPE_CHECKING:
    from fireiron.show.cutting import Array, Pieces
    from fireiron.show.whole import Estimated

LONGEST = 600  # tiles that the line of visits passes


def slots_of(schedule: Estimated, tiles: int) -> int | None:
    """Return the number of tiles in a wave; None for an unfinished schedule, or one without an estimate."""
    if (kernel := lowered_of(schedule)) is None:
        return None
    try:
        found = schedule.estimate()
    except FireironError:
        return None
    blocks = found.blocks_per_sm * arch(found.arch).gpu.sms_of_clusters(kernel.cluster)
    each = max(1, found.grid // max(tiles, 1))  # blocks that share a tile
    return max(1, blocks // each)


def draw(drawing: Drawing, x: float, y: float, right: float, down: float, found: Pieces, slots: int) -> None:
    """Draw the tiles of a grid in the colours of their waves, and a line through the first wave's tiles in their order.

    Args:
        drawing: the drawing to add to.
        x, y: upper left corner, in pixels.
        right, down: width of a column and height of a row, in pixels.
        found: the cut into tiles.
        slots: number of tiles in a wave.
    """
    waves = found.unit[np.ix_([i for *_, i in found.rows], [j for *_, j in found.cols])] // slots
    for (start, length, _), row in zip(found.rows, waves, strict=True):
        edges = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(row))), len(row)]
        for first, last in pairwise(edges):
            left, (begin, wide, _) = found.cols[first][0], found.cols[last - 1]
            box = (x + left * right, y + start * down, (begin + wide - left) * right, length * down)
            drawing.rect(*box, hue(int(row[first])), "crisp")
    points = _visits(found, min(slots, LONGEST))
    centres = [
        (x + (found.cols[j][0] + found.cols[j][1] / 2) * right, y + (found.rows[i][0] + found.rows[i][1] / 2) * down)
        for i, j in points
    ]
    if len(centres) > 1:
        drawing.path(centres, "order")
    for centre, fill in ((centres[0], "ink"), (centres[-1], "ground")):
        drawing.dot(*centre, 3, fill, "order")


def _visits(found: Pieces, most: int) -> list[tuple[int, int]]:
    """List the corners of the line through the first drawn tiles, in their order."""
    rows, cols = len(found.rows), len(found.cols)
    unit = found.unit[:rows, :cols]
    order: Array = np.argsort(unit, axis=None)[:most]
    way = [(int(n) // cols, int(n) % cols) for n in order]
    kept = [
        at
        for before, at, after in zip(way, way[1:], way[2:], strict=False)
        if (at[0] - before[0], at[1] - before[1]) != (after[0] - at[0], after[1] - at[1])
    ]
    return [way[0], *kept, *way[-1:]]


def said(tiles: int, slots: int) -> str:
    """Write the number of waves."""
    return f"{count(-(-tiles // slots), 'wave')} of {count(min(slots, tiles), 'tile')}"
