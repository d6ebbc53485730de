"""Pictures of tiles: how they divide C among blocks, warps and threads, and which unit takes which tile."""

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
from fireiron.language.decompositions import EachStep, Tile, Widest
from fireiron.language.levels import Kernel as KernelLevel
from fireiron.show.halo import Halo, halos, reads
from fireiron.show.halo import draw as draw_halo
from fireiron.show.page import WIDTH
from fireiron.show.picture import Picture, wrapped
from fireiron.show.scheduled import origin_of
from fireiron.show.steps import Step, layers, product, steps
from fireiron.show.svg import Drawing, hue, width_of
from fireiron.show.waves import draw as draw_waves
from fireiron.show.waves import said as waves_said
from fireiron.show.waves import slots_of
from fireiron.show.whole import Estimated
from fireiron.show.words import words

Array = npt.NDArray[Any]

SIDE = 250.0  # the longer side of a panel
GAP = 44.0
TITLE = 44  # characters of a line of a title
ACROSS = 3  # panels beside each other
MOST = 64  # pieces along a dimension that are drawn
DENSE = 512  # the same of a grid, whose tiles have no numbers where they are many
LEAST = 8.0  # size of a number
BETWEEN = 4.0  # between numbers side by side
STRIP = 90.0  # width of a panel of one dimension
SYMBOLIC = 4  # tiles drawn along an extent that is a symbol
LEGEND = "outlined: the tile that the next panel enlarges; a number: the unit that takes the tile"
TURN = "of persistent units its place in their order"


@attrs.frozen(eq=False)
class Pieces:
    """Hold how a tile link cuts the last two dimensions of its spec.

    Args:
        extents: rows and columns.
        rows, cols: (start, length, number of the tile) for each run of neighbours in one tile.
        unit: (row tiles, column tiles) array: number of the unit that takes the tile.
        units: number of units.
        note: text about what the drawing leaves out.
    """

    extents: tuple[int, int]
    rows: tuple[tuple[int, int, int], ...]
    cols: tuple[tuple[int, int, int], ...]
    unit: Array
    units: int
    note: str = ""


def cuts(schedule: Estimated) -> Picture:
    """Draw how the tiles of a schedule cut its result, in a panel for each tile link.

    A panel shows the inside of one tile of the panel before, which is outlined there. Numbers name the units (blocks,
    warps, threads) that take the tiles; a unit that takes several tiles has its number on each. A grid with too many
    tiles for numbers shows waves instead, in colours, and a line through the tiles of the first wave in the order of
    visits. For convolutions, whose tiles read more than they write, a further panel shows what tiles read, with halos
    in another colour.

    Args:
        schedule: finished or not.
    """
    drawing = Drawing(f"how {origin_of(schedule).short} is cut")
    said: list[str] = []
    x, y, lowest = 0.0, 22.0, 0.0
    chain = [(step, name) for step, name in _tiled(steps(schedule)) if pieces(step).unit.size]
    if chain:
        persists = any(isinstance(step.link, Tile) and step.link.persistent for step, _ in chain)
        drawing.text(0, 10, f"{LEGEND}, {TURN}" if persists else LEGEND, "faint", 10)
    tall = max((len(textwrap.wrap(_title(step, name), TITLE)) for step, name in chain), default=1)
    panel = 0
    for step, name in chain:
        found = pieces(step)
        x, y, lowest = _next(panel, x, y, lowest)
        slots = slots_of(schedule, found.units) if _is_grid(step) else None
        said.append(_panel(drawing, x, y, _title(step, name), step, found, tall, slots))
        panel, lowest = panel + 1, max(lowest, drawing.height)
        halo = halos(step, _wanted(step), parts_of(step)) if _is_grid(step) and len(dims(step)) == 2 else None
        if halo is not None:
            x, y, lowest = _next(panel, x, y, lowest)
            said.append(_halo_panel(drawing, x, y + 13 * (tall - 1), halo, found))
            panel, lowest = panel + 1, max(lowest, drawing.height)
    if not chain:
        drawing.text(0, 12, f"{origin_of(schedule).short}: no tile yet", "faint")
        said.append("no tile yet")
    return Picture(drawing.title, drawing, wrapped(*said))


def _next(panel: int, x: float, y: float, lowest: float) -> tuple[float, float, float]:
    """Return the position of the next panel, and the lowest edge of its row of panels."""
    if panel == 0:
        return x, y, lowest
    return (0.0, lowest + GAP / 2, 0.0) if panel % ACROSS == 0 else (x + SIDE + GAP, y, lowest)


def _tiled(chain: tuple[Step, ...]) -> list[tuple[Step, str]]:
    """List the tile links of a chain, then those of its first layer, or of each step with a chain of its own."""
    found: list[tuple[Step, str]] = []
    for step in chain:
        if isinstance(step.link, Tile) and not isinstance(step.link.sizes, Widest):
            found.append((step, ""))
        inner = layers(step)
        for nested in inner if isinstance(step.link, EachStep) else inner[:1]:
            found += [(each, nested.path.rpartition(" > ")[2]) for each, _ in _tiled(nested.steps)]
    return found


def _title(step: Step, name: str) -> str:
    assert isinstance(step.link, Tile)
    return f"{name}: {words(step.link)}" if name else words(step.link)


def _is_grid(step: Step) -> bool:
    """Say whether a tile goes to blocks or clusters of the grid."""
    return step.before.level == KernelLevel and isinstance(step.link, Tile) and step.link.level is not None


def dims(step: Step) -> tuple[str, ...]:
    """List the one or two dimensions that are drawn: the last dimensions that a tile cuts, in the spec's order.

    If a grid cuts several dimensions from which an operand's indices are computed, such as rows and columns of pixels,
    the last of these are drawn.
    """
    assert isinstance(step.link, Tile)
    assert not isinstance(step.link.sizes, Widest)
    every = [dim for dim, _ in step.link.sizes]
    computed = [dim for dim in every if any(reads(e, dim) for _, e in step.before.maps)] if _is_grid(step) else []
    last = (computed if len(computed) > 1 else every)[-2:]
    return tuple(dim for dim, _ in step.before.sizes if dim in last)


def _wanted(step: Step) -> tuple[str, str]:
    """Return the dimensions of rows and columns; for a single dimension there is one column."""
    rows, *cols = dims(step)
    return rows, cols[0] if cols else ""


def parts_of(step: Step) -> dict[str, Cut]:
    """Cut each dimension into tiles; for a symbolic extent, only the first few tiles."""
    assert isinstance(step.link, Tile)
    assert not isinstance(step.link.sizes, Widest)
    sizes, parts = dict(step.link.sizes), dict[str, Cut]()
    for dim, extent in step.before.sizes:
        if dim in sizes:
            size = sizes[dim]
            if not isinstance(extent, int):
                assert isinstance(size, int)
                extent = SYMBOLIC * size
            parts[dim] = cut(size, extent)
    return parts


def pieces(step: Step) -> Pieces:
    """Return which unit takes which tile; for a symbolic extent, only the first few tiles."""
    link = step.link
    assert isinstance(link, Tile)
    parts, wanted = parts_of(step), dims(step)
    notes = [
        f"{extent} is known at the call: {SYMBOLIC} tiles drawn"
        for dim, extent in step.before.sizes
        if dim in parts and not isinstance(extent, int)
    ]
    extents = dict(step.before.sizes)
    runs: list[tuple[tuple[int, int, int], ...]] = []
    for dim in wanted:
        extent, part = extents[dim], parts[dim]
        whole = int(part.trips) * int(part.size)  # pyright: ignore[reportArgumentType]
        runs.append(_runs(part, extent if isinstance(extent, int) else whole))
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
    most = DENSE if _is_grid(step) else MOST
    shown = [run[:most] for run in runs]
    for dim, run, mine in zip(wanted, runs, shown, strict=True):
        if len(run) > len(mine):
            notes.append(f"the first {len(mine)} of {len(run)} pieces of {dim} drawn")
    ends = [max(start + length for start, length, _ in run) for run in shown]
    if len(wanted) == 1:  # a column of rows, as wide as it is high
        shown, ends, unit = [*shown, ((0, ends[0], 0),)], [*ends, ends[0]], unit[:, None]
    return Pieces((ends[0], ends[1]), shown[0], shown[1], unit, units, "; ".join(notes))


def _runs(part: Cut, extent: int) -> tuple[tuple[int, int, int], ...]:
    """List the runs of neighbours in one tile: (start, length, tile)."""
    trips, size = int(part.trips), int(part.size)  # pyright: ignore[reportArgumentType]
    starts = np.arange(trips) * size if part.outer is None else np.asarray(part.outer(np.arange(trips)))
    places = np.broadcast_to(starts, (trips,))[:, None] + np.asarray(part.inner(np.arange(size)))[None, :]
    owner = np.full(max(extent, int(places.max()) + 1), -1)
    owner[places.reshape(-1)] = np.repeat(np.arange(trips), size)
    owner = owner[:extent]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(owner))), extent]
    found = [(a, b - a, int(owner[a])) for a, b in pairwise(edges)]
    return tuple(found)


def _panel(
    drawing: Drawing, x: float, y: float, title: str, step: Step, found: Pieces, tall: int, slots: int | None
) -> str:
    """Draw one panel, with a title of at most `tall` lines; return its description in words.

    Args:
        slots: number of tiles in a wave, for a grid; None if unknown.
    """
    link = step.link
    assert isinstance(link, Tile)
    level = link.level
    rows, cols = found.extents
    scale = SIDE / max(rows, cols)
    flat = max(1.0, 40.0 / (min(rows, cols) * scale))  # a thin tile is drawn thicker than it is
    down, right = (scale * (flat if rows < cols else 1), scale * (flat if cols < rows else 1))
    if len(dims(step)) == 1:
        right = STRIP / cols
    for i, line in enumerate(textwrap.wrap(title, TITLE)):
        drawing.text(x, y + 12 + 13 * i, line, "link", bold=True, size=10)
    y += 13 * (tall - 1)
    share = count(found.units, str(level).lower()) if level else "loop"
    if link.persistent:
        share = "in turn"
    dims_ = "x".join(str(n) for n in found.unit.shape[: len(dims(step))])
    cut_ = f"{step.before.level}: {_extents(step)} in {dims_} tile{'s' * (found.unit.size > 1)}"
    told = f"{cut_}, {share}"
    top = y + 36
    bottom = top + rows * down
    if _is_grid(step) and _font(found, right, down) < LEAST:
        drawing.text(x, y + 27, cut_, "faint", 10)
        draw_waves(drawing, x, top, right, down, found, slots or found.units)
        taken = "tiles" if link.persistent else share
        lines = [f"{taken} in the order of the line, from the dot on"]
        if slots is not None:
            lines.append(f"a colour is a wave: {waves_said(found.units, slots)}; the line stays in the first")
    else:
        drawing.text(x, y + 27, told, "faint", 10)
        lines = [waves_said(found.units, slots)] if slots is not None and _is_grid(step) else []
        _tiles(drawing, x, top, right, down, found, level is not None)
    if found.note:
        lines.append(found.note)
    for line in (part for each in lines for part in textwrap.wrap(each, TITLE)):
        bottom += 13
        drawing.text(x, bottom, line, "note", 9)
    asks = "the place of each tile in that order:" if link.persistent else "the unit that takes each tile:"
    line = f"{title}: {told}; {asks}" if level else f"{title}: {told}"
    if _is_grid(step) and slots is not None:
        line = line.replace(f"{share};", f"{share}, {waves_said(found.units, slots)};")
    return "\n".join([line, *(_grid(found) if level else [])] + ([f"  {found.note}"] if found.note else []))


def _font(found: Pieces, right: float, down: float) -> float:
    """Return the font size in which the longest number fits into the smallest tile."""
    wide, high = (min(length for _, length, _ in runs) for runs in (found.cols, found.rows))
    return min(11.0, high * down - 2, (wide * right - BETWEEN) / width_of(str(found.unit.max()), 1))


def _tiles(drawing: Drawing, x: float, top: float, right: float, down: float, found: Pieces, taken: bool) -> None:
    """Draw each tile, with its unit's number if there is room, and outline the tiles of the first unit."""
    size = max(LEAST, _font(found, right, down))
    for start, length, i in found.rows:
        for first, wide, j in found.cols:
            unit = int(found.unit[i, j])
            box = (x + first * right, top + start * down, wide * right, length * down)
            drawing.rect(*box, hue(unit) if taken else "panel", "hair")
            label = str(unit) if taken else ""
            if label and size <= box[3] - 2 and width_of(label, size) <= box[2] - BETWEEN:
                drawing.text(box[0] + box[2] / 2, box[1] + box[3] / 2 + size * 0.36, label, size=size, anchor="middle")
    for start, length, i in found.rows:
        for first, wide, j in found.cols:
            if found.unit[i, j] == 0 and (taken or (i, j) == (0, 0)):
                mine = not taken or (i, j) == _first(found)
                drawing.rect(
                    x + first * right, top + start * down, wide * right, length * down, "none",
                    "strong" if mine else "edge",
                )  # fmt: skip


def _halo_panel(drawing: Drawing, x: float, y: float, found: Halo, tiles: Pieces) -> str:
    """Draw the parts of an operand that the tiles of the grid read."""
    drawing.text(x, y + 12, f"{found.operand.role}: what the tiles read of it", "link", bold=True, size=10)
    high, told = draw_halo(drawing, x, y + 36, SIDE, found, tiles.unit)
    drawing.rect(x, y + 18, 10, 10, "halo", "hair")
    drawing.text(x + 16, y + 27, "halo: read by several tiles", "faint", 10)
    for i, line in enumerate(textwrap.wrap(told, TITLE)):
        drawing.text(x, y + 36 + high + 13 * (i + 1), line, "note", 9)
    return told


def _first(found: Pieces) -> tuple[int, int]:
    i, j = np.argwhere(found.unit == 0)[0]
    return int(i), int(j)


def _extents(step: Step) -> str:
    return "x".join(str(extent) for dim, extent in step.before.sizes if dim in dims(step))


def _grid(found: Pieces, rows: int = 8, cols: int = 16) -> list[str]:
    """Write the unit numbers of the first tiles as rows of text, no wider than a terminal."""
    high, wide = found.unit.shape
    wide_text = len(str(int(found.unit.max())))
    cols = min(cols, (WIDTH - len("   …")) // (wide_text + 1))
    lines = [
        "  " + " ".join(str(n).rjust(wide_text) for n in found.unit[r, :cols]) + (" …" if wide > cols else "")
        for r in range(min(rows, high))
    ]
    return [*lines, "  …"] if high > rows else lines
