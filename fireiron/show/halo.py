"""Halos: the elements of an operand that several neighbouring tiles of a grid read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from fireiron.algebra.expr import Expr, evaluate, free
from fireiron.kernel.lower.window import Cut
from fireiron.language.maps import gathers
from fireiron.language.residual import Operand
from fireiron.show.steps import Step
from fireiron.show.svg import Drawing, hue

Array = npt.NDArray[Any]


@attrs.frozen(eq=False)
class Side:
    """Hold the parts that tiles read along one dimension of an operand.

    Args:
        extent: extent of the tensor.
        runs: (start, length, tile, readers) for each run of elements that the same tiles read: the first of these
            tiles, and their number.
        outside: number of elements beyond the tensor's ends that tiles read (padding).
    """

    extent: int
    runs: tuple[tuple[int, int, int, int], ...]
    outside: int


@attrs.frozen(eq=False)
class Halo:
    """Hold the parts that the tiles of a grid read of one operand, in the two drawn dimensions."""

    operand: Operand
    rows: Side
    cols: Side


def halos(step: Step, wanted: tuple[str, str], parts: dict[str, Cut]) -> Halo | None:
    """Find an operand whose indices are computed from the drawn dimensions; its tiles may overlap.

    Args:
        step: the tile link of the grid.
        wanted: names of the dimensions of rows and columns.
        parts: by dimension, its cut into tiles.
    """
    maps = dict(step.before.maps)
    for operand in step.before.operands:
        found: list[Side] = []
        for dim in wanted:
            place = next((i for i, d in enumerate(operand.dims) if d in maps and reads(maps[d], dim)), None)
            if place is None:
                break
            side = _side(maps[operand.dims[place]], dim, operand.tensor.shape[place], step, parts)
            if side is None:
                break
            found.append(side)
        if len(found) == 2:
            return Halo(operand, *found)
    return None


def reads(e: Expr, dim: str) -> bool:
    """Say whether an index is computed from a dimension."""
    return not gathers(e) and any(var.name == dim for var in free(e))


def _side(e: Expr, dim: str, extent: object, step: Step, parts: dict[str, Cut]) -> Side | None:
    """Evaluate an index at all points of all tiles of a dimension."""
    sizes = step.before.extents
    others = sorted(var.name for var in free(e) if var.name != dim)
    known = [sizes.get(name) for name in (dim, *others)]
    if not isinstance(extent, int) or not all(isinstance(n, int) for n in known):
        return None
    axes = [np.arange(n) for n in known if isinstance(n, int)]
    grid = dict(zip((dim, *others), np.meshgrid(*axes, indexing="ij"), strict=True))
    index: Array = np.broadcast_to(np.asarray(evaluate(e, grid)), grid[dim].shape).reshape(len(axes[0]), -1)
    part = parts[dim]
    trips, size = int(part.trips), int(part.size)  # pyright: ignore[reportArgumentType]
    read = np.zeros((trips, extent), bool)
    outside = int(((index < 0) | (index >= extent)).any(axis=1).sum())
    for tile in range(trips):
        start = tile * size if part.outer is None else int(np.asarray(part.outer(np.array([tile]))).flat[0])
        mine = start + np.asarray(part.inner(np.arange(size)))
        asked = index[mine[mine < len(index)]].reshape(-1)
        read[tile, asked[(asked >= 0) & (asked < extent)]] = True
    edges = [0, *(int(i) + 1 for i in np.flatnonzero((read[:, 1:] != read[:, :-1]).any(axis=0))), extent]
    runs = tuple((a, b - a, int(read[:, a].argmax()), int(read[:, a].sum())) for a, b in pairwise(edges))
    return Side(extent, runs, outside)


def draw(drawing: Drawing, x: float, y: float, side: float, found: Halo, unit: Array) -> tuple[float, str]:
    """Draw an operand; each part has the colour of the tile that reads it, and halos have a colour of their own.

    Args:
        drawing: the drawing to add to.
        x, y: upper left corner, in pixels.
        side: length of the longer side, in pixels.
        found: the parts that tiles read; other parts stay empty.
        unit: (row tiles, column tiles) array: number of the unit that takes the tile.

    Returns:
        The height in pixels, and the description in words.
    """
    rows, cols = found.rows, found.cols
    scale = side / max(rows.extent, cols.extent)
    halo = 0
    for start, length, i, down in rows.runs:
        for first, width, j, right in cols.runs:
            readers = down * right
            fill = "empty" if not readers else hue(int(unit[i, j])) if readers == 1 else "halo"
            halo += length * width if readers > 1 else 0
            tip = f"read by {readers} tiles" if readers != 1 else f"read by tile {i}, {j}"
            box = (x + first * scale, y + start * scale, width * scale, length * scale)
            drawing.rect(*box, fill, "hair", tip=f"{tip}: {length}x{width} elements")
    share = halo / (rows.extent * cols.extent)
    beyond = " Tiles at the edge also ask for what lies outside." if rows.outside + cols.outside else ""
    said = f"{rows.extent}x{cols.extent} of {found.operand.role}: {share:.0%} is read by several tiles.{beyond}"
    return rows.extent * scale, said
