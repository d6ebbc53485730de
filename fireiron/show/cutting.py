"""Cuts: how tiles divide C over the grid, over blocks, warps and threads, and which unit takes which tile."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from fireiron.algebra.expr import Var, evaluate, simplest
from fireiron.base.text import count
from fireiron.kernel.lower.numbering import tile_numbers
from fireiron.kernel.lower.permutation import permuted
from fireiron.kernel.lower.window import Cut, cut
from fireiron.language.decompositions import Tile, Widest
from fireiron.show.page import WIDTH
from fireiron.show.picture import Picture, wrapped
from fireiron.show.scheduled import Scheduled
from fireiron.show.steps import Step, product, steps
from fireiron.show.svg import Drawing, hue, width_of
from fireiron.show.words import words

Array = npt.NDArray[Any]

SIDE = 250.0  # the longer side of a panel
GAP = 44.0
TITLE = 44  # characters of a line of a title
ACROSS = 3  # panels beside each other
MOST = 64  # pieces along a dimension that are drawn
SYMBOLIC = 4  # tiles drawn along an extent that is a symbol
LEGEND = "outlined: the tile that the next panel enlarges; a number: the unit that takes the tile"
TURN = "of persistent units its place in their order"


@attrs.frozen(eq=False)
class Pieces:
    """Hold how one tile cuts the two last dimensions of what it is given.

    Args:
        extents: rows and columns.
        rows, cols: (start, length, number of the tile) of each run of neighbours that one tile takes.
        unit: (row tiles, column tiles) of the unit that takes the tile.
        units: how many units there are.
        note: what the drawing does not show.
    """

    extents: tuple[int, int]
    rows: tuple[tuple[int, int, int], ...]
    cols: tuple[tuple[int, int, int], ...]
    unit: Array
    units: int
    note: str = ""


def cuts(schedule: Scheduled) -> Picture:
    """Draw how the tiles of a schedule cut C: a panel a tile, each the inside of one tile of the panel before.

    Numbers name the units (blocks, warps, threads) that take the tiles; the outlined tile is the one that the next
    panel enlarges. Where there are more tiles than units, a unit takes several, and its number stands several times.

    Args:
        schedule: finished or not.
    """
    drawing = Drawing(f"how {schedule.origin.short} is cut")
    said: list[str] = []
    x, y, lowest = 0.0, 22.0, 0.0
    chain = [
        step
        for step in steps(schedule)
        if isinstance(step.link, Tile) and not isinstance(step.link.sizes, Widest) and len(dims(step)) == 2
    ]
    if chain:
        persists = any(isinstance(step.link, Tile) and step.link.persistent for step in chain)
        drawing.text(0, 10, f"{LEGEND}, {TURN}" if persists else LEGEND, "faint", 10)
    tall = max((len(textwrap.wrap(words(step.link), TITLE)) for step in chain), default=1)
    for panel, step in enumerate(chain):
        found = pieces(step)
        if panel and panel % ACROSS == 0:
            x, y, lowest = 0.0, lowest + GAP / 2, 0.0
        said.append(_panel(drawing, x, y, step, found, tall))
        lowest = max(lowest, drawing.height)
        x += SIDE + GAP
    if not chain:
        drawing.text(0, 12, f"{schedule.origin}: no tile yet", "faint")
        said.append("no tile yet")
    return Picture(drawing.title, drawing, wrapped(*said))


def dims(step: Step) -> tuple[str, ...]:
    """List the dimensions that a tile cuts, batches left out: they have no place in a drawing of one matrix."""
    assert isinstance(step.link, Tile) and not isinstance(step.link.sizes, Widest)
    return tuple(dim for dim, _ in step.link.sizes)[-2:]


def pieces(step: Step) -> Pieces:
    """Say which unit takes which part of what a tile cuts; of an extent that is a symbol, the first few tiles."""
    link = step.link
    assert isinstance(link, Tile) and not isinstance(link.sizes, Widest)
    sizes, wanted, notes = dict(link.sizes), dims(step), list[str]()
    parts: dict[str, Cut] = {}
    extents: list[int] = []
    for dim, extent in step.before.sizes:
        if dim not in sizes:
            continue
        size = sizes[dim]
        if not isinstance(extent, int):
            assert isinstance(size, int)
            notes.append(f"{extent} is known at the call: {SYMBOLIC} tiles drawn")
            extent = SYMBOLIC * size
        parts[dim] = cut(size, extent)
        if dim in wanted:
            extents.append(extent)
    runs = [_runs(parts[dim], extent) for dim, extent in zip(wanted, extents, strict=True)]
    tiles = int(product(tuple(part.trips for part in parts.values())))  # pyright: ignore[reportArgumentType]
    unit = np.zeros(tuple(int(parts[dim].trips) for dim in wanted), np.int64)  # pyright: ignore[reportArgumentType]
    units = tiles
    if link.level is not None:
        units = min(tiles, step.units or tiles) if step.units else tiles
        if link.units is not None:
            units = min(units, link.units)
        var = Var("id", tiles)
        ids = np.arange(tiles)
        taken = ids % units
        index = evaluate(permuted(link, Var("id", units), simplest(units)), {"id": taken})
        numbers = tile_numbers(var, parts, link.order)
        at = np.broadcast_to(np.asarray(index), (tiles,)) + ids // units * units
        place = {dim: np.broadcast_to(np.asarray(evaluate(numbers[dim], {"id": at})), (tiles,)) for dim in parts}
        others = [dim for dim in parts if dim not in wanted]
        drawn = np.all([place[dim] == 0 for dim in others], axis=0) if others else np.full(tiles, True)
        unit[tuple(place[dim][drawn] for dim in wanted)] = taken[drawn]
        notes += [f"the first of {parts[dim].trips} along {dim} drawn" for dim in others if parts[dim].trips != 1]
    shown = [run[:MOST] for run in runs]
    for dim, run, mine in zip(wanted, runs, shown, strict=True):
        if len(run) > len(mine):
            notes.append(f"the first {len(mine)} of {len(run)} pieces of {dim} drawn")
    ends = tuple(max(start + length for start, length, _ in run) for run in shown)
    return Pieces((ends[0], ends[1]), shown[0], shown[1], unit, units, "; ".join(notes))


def _runs(part: Cut, extent: int) -> tuple[tuple[int, int, int], ...]:
    """List the runs of neighbours that belong to one tile: (start, length, tile)."""
    trips, size = int(part.trips), int(part.size)  # pyright: ignore[reportArgumentType]
    starts = np.arange(trips) * size if part.outer is None else np.asarray(part.outer(np.arange(trips)))
    places = np.broadcast_to(starts, (trips,))[:, None] + np.asarray(part.inner(np.arange(size)))[None, :]
    owner = np.full(max(extent, int(places.max()) + 1), -1)
    owner[places.reshape(-1)] = np.repeat(np.arange(trips), size)
    owner = owner[:extent]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(owner))), extent]
    found = [(a, b - a, int(owner[a])) for a, b in pairwise(edges)]
    return tuple(found)


def _panel(drawing: Drawing, x: float, y: float, step: Step, found: Pieces, tall: int) -> str:
    """Draw one tile's cut, its title in `tall` lines at most; say it in words."""
    link = step.link
    assert isinstance(link, Tile)
    level = link.level
    rows, cols = found.extents
    scale = SIDE / max(rows, cols)
    flat = max(1.0, 40.0 / (min(rows, cols) * scale))  # a thin tile is drawn thicker than it is
    down, right = (scale * (flat if rows < cols else 1), scale * (flat if cols < rows else 1))
    title = words(link)
    for i, line in enumerate(textwrap.wrap(title, TITLE)):
        drawing.text(x, y + 12 + 13 * i, line, "link", bold=True, size=10)
    y += 13 * (tall - 1)
    share = count(found.units, str(level).lower()) if level else "loop"
    if link.persistent:
        share = "in turn"
    dims_ = "x".join(str(n) for n in found.unit.shape)
    told = f"{step.before.level}: {_extents(step)} in {dims_} tiles, {share}"
    drawing.text(x, y + 27, told if len(told) <= 44 else f"{told[:43]}…", "faint", 10)
    top = y + 36
    for start, length, i in found.rows:
        for first, wide, j in found.cols:
            unit = int(found.unit[i, j])
            box = (x + first * right, top + start * down, wide * right, length * down)
            drawing.rect(*box, hue(unit) if level else "panel", "hair")
            label = str(unit) if level else ""
            size = min(11.0, box[3] - 2)
            if label and size >= 7 and width_of(label, size) <= box[2] - 2:
                drawing.text(box[0] + box[2] / 2, box[1] + box[3] / 2 + size * 0.36, label, size=size, anchor="middle")
    for start, length, i in found.rows:
        for first, wide, j in found.cols:
            if found.unit[i, j] == 0 and (level or (i, j) == (0, 0)):
                mine = level is None or (i, j) == _first(found)
                drawing.rect(
                    x + first * right, top + start * down, wide * right, length * down, "none",
                    "strong" if mine else "edge",
                )  # fmt: skip
    if found.note:
        drawing.text(x, top + rows * down + 13, found.note, "note", 9)
    asks = "the place of each tile in that order:" if link.persistent else "the unit that takes each tile:"
    line = f"{title}: {told}; {asks}" if level else f"{title}: {told}"
    return "\n".join([line, *(_grid(found) if level else [])] + ([f"  {found.note}"] if found.note else []))


def _first(found: Pieces) -> tuple[int, int]:
    i, j = np.argwhere(found.unit == 0)[0]
    return int(i), int(j)


def _extents(step: Step) -> str:
    return "x".join(str(extent) for dim, extent in step.before.sizes if dim in dims(step))


def _grid(found: Pieces, rows: int = 8, cols: int = 16) -> list[str]:
    """Write the units of the first tiles, no row wider than a terminal."""
    high, wide = found.unit.shape
    wide_text = len(str(int(found.unit.max())))
    cols = min(cols, (WIDTH - len("   …")) // (wide_text + 1))
    lines = [
        "  " + " ".join(str(n).rjust(wide_text) for n in found.unit[r, :cols]) + (" …" if wide > cols else "")
        for r in range(min(rows, high))
    ]
    return [*lines, "  …"] if high > rows else lines
