"""Banks: where the elements of a buffer in shared memory lie, and the words that lanes request from each bank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from fireiron.base.errors import UsageError
from fireiron.base.text import count
from fireiron.kernel.analysis.access import AccessRow, accesses, conditions_of, what
from fireiron.kernel.analysis.sampling import Site, reads_and_writes, sample, sites, typical_sizes
from fireiron.kernel.analysis.traffic import BANKS, WARP, WORD
from fireiron.kernel.ir.statements import Buffer, Call, Kernel, Statement, View
from fireiron.language.decompositions import Decomposition, Load
from fireiron.language.levels import SH
from fireiron.show import lowered
from fireiron.show.lowering import Lowers, lowered_of
from fireiron.show.panel import is_whole
from fireiron.show.picture import Picture, wrapped
from fireiron.show.placement import Placement, placement
from fireiron.show.steps import Step, nested, steps
from fireiron.show.svg import Drawing, wheel
from fireiron.show.values import place_of, tip_of
from fireiron.simulate.kept import Kept

Array = npt.NDArray[Any]

CORE = 8  # rows of a core matrix
WIDEST = 16  # bytes of one lane's access
MOST_ROWS, MOST_COLS = 32, 32
CELL_W, CELL_H = 25.0, 17.0
BAR_H = 60.0
LEAST = 4.0  # of the bar of a bank that gives anything
NARROW = 10  # columns beside which there is room for the bars
LEGEND = (
    "a cell: the bank of an element; outlined: what lanes served together ask for, red where a bank gives several words"
)


@attrs.frozen(eq=False)
class Group:
    """Hold one access's worst group of lanes that shared memory serves together.

    Args:
        title: the access: direction and instruction.
        lanes: numbers of the lanes.
        words: (lanes, words) array of the words that each lane requests, counted from the start of the slot; negative
            for an idle lane.
        row: counts of the whole access. None for an instruction that reads the buffer as a whole; `words` then
            describes one of the 8x16-byte matrices that the buffer consists of.
    """

    title: str
    lanes: Array
    words: Array
    row: AccessRow | None

    @property
    def load(self) -> Array:
        """Count the distinct words that each bank must deliver."""
        return np.bincount(np.unique(self.words[self.words >= 0]) % BANKS, minlength=BANKS)

    @property
    def wavefronts(self) -> int:
        """Return the number of wavefronts (turns) that the group takes."""
        return int(self.load.max())


def banks(*schedules: Lowers, buffer: str | None = None, values: Kept | None = None) -> Picture:
    """Draw the banks of a buffer in shared memory, and the worst group of lanes of each access to the buffer.

    A cell is an element at its row and column; number and colour show its bank. Elements of lanes that are served
    together are outlined: in green where each bank delivers one word, in red where a bank must deliver several, one
    after the other. Bars below show the words of each bank. Several schedules, such as before and after a pad or
    swizzle, are drawn below each other.

    Args:
        schedules: finished schedules.
        buffer: name of a buffer in SH; where None, the first buffer that a load fills.
        values: the buffer's contents from a simulation (`schedule.simulate(keep=...).kept`), which tips then show.

    Raises:
        UsageError: `unfinished`, `no-such-buffer`.
    """
    drawing = Drawing(f"banks of {buffer or 'shared memory'}")
    drawing.text(0, 10, LEGEND, "faint", 10)
    words, y = list[str](), 24.0
    shown: list[tuple[Placement, tuple[Group, ...], Kernel, Buffer]] = []
    for schedule in schedules:
        kernel = lowered_of(schedule)
        if kernel is None:
            raise UsageError("unfinished", "banks needs a finished schedule", fix="close the chain by .done()")
        step, rest = _load(schedule, kernel, buffer)
        held = lowered.buffer(kernel, step)
        assert held is not None
        placed = placement(step, rest)
        shown.append((placed, groups(kernel, held, placed), kernel, held))
    most = max((group.wavefronts for _, found, *_ in shown for group in found), default=1)
    for placed, found, kernel, held in shown:
        head = f"{held.name}: {placed}"
        drawing.text(0, y + 12, head, bold=True)
        words.append(head)
        y += 24
        for group in found:
            y, said = _panel(drawing, y, placed, group, held, most, values)
            words += said
        for line in _bulk(kernel, held):
            drawing.text(0, y + 12, line, "memory", 11)
            words.append(f"  {line}")
            y += 20
        y += 10
    return Picture(drawing.title, drawing, wrapped(*words))


def _load(schedule: Lowers, kernel: Kernel, name: str | None) -> tuple[Step, tuple[Decomposition, ...]]:
    """Find the load that fills a buffer, and the links of its Move."""
    known: list[str] = []
    # Loads of the spec's own operands come first: those of a store are seldom what one asks about.
    for step, rest in sorted(_loads(steps(schedule)), key=lambda load: load[0].path.count(" > store")):
        held = lowered.buffer(kernel, step)
        if held is not None:
            if name is None or held.name == name:
                return step, rest
            known.append(held.name)
    listed = ", ".join(known) or "none"
    wanted = "no load fills a buffer in SH" if name is None else f"no buffer in SH is called {name}"
    raise UsageError("no-such-buffer", wanted, fix=f"the schedule's are: {listed}")


def _loads(chain: tuple[Step, ...]) -> Iterator[tuple[Step, tuple[Decomposition, ...]]]:
    for i, step in enumerate(chain):
        if isinstance(step.link, Load) and step.link.memory == SH:
            yield step, tuple(each.link for each in chain[i + 1 :])
        inner = nested(step)
        if inner is not None:
            yield from _loads(inner.steps)


def groups(kernel: Kernel, buffer: Buffer, placed: Placement | None = None) -> tuple[Group, ...]:
    """Find all accesses to a buffer, and the worst group of lanes of each.

    Args:
        kernel: the lowered kernel.
        buffer: a buffer in SH.
        placed: the places of its elements, for instructions that read the buffer as a whole; None leaves these out.
    """
    found: dict[str, Group] = {}
    rows = accesses(kernel)
    for site in sites(kernel.body):
        for view, direction in reads_and_writes(site.statement):
            if view.buffer.name != buffer.name:
                continue
            title = f"{'read' if direction == 'read' else 'written'} by {what(site)}"
            if _whole(site.statement, view):
                if placed is not None and isinstance(site.statement, Call) and site.statement.atom.kind == "MatMul":
                    found[title] = _core(title, buffer, placed)
                continue
            row = next(r for r in rows if (r.place, r.buffer, r.direction) == (site.place, buffer.name, direction))
            group = _worst(kernel, site, view, direction, title, row)
            if group is not None and (title not in found or found[title].wavefronts < group.wavefronts):
                found[title] = group
    return tuple(found.values())


def _whole(statement: Statement, view: View) -> bool:
    """Say whether an instruction reads the buffer as a whole, by its first address."""
    if not isinstance(statement, Call):
        return False
    operand = statement.atom.operands[next(i for i, each in enumerate(statement.views) if each is view)]
    return is_whole(operand, statement.atom)


def _bulk(kernel: Kernel, buffer: Buffer) -> list[str]:
    """List the bulk copies of a buffer."""
    found = {
        f"{'read' if direction == 'read' else 'written'} by {site.statement.atom.name} as a whole, row after row": None
        for site in sites(kernel.body)
        for view, direction in reads_and_writes(site.statement)
        if view.buffer.name == buffer.name
        and isinstance(site.statement, Call)
        and site.statement.atom.kind != "MatMul"
        and _whole(site.statement, view)
    }
    return list(found)


def _core(title: str, buffer: Buffer, placed: Placement) -> Group:
    """Return the words of one core matrix: operands of wgmma consist of these 8 rows of 16 bytes (PTX ISA 9.7.15.5)."""
    item = buffer.dtype.nbytes
    offsets = placed.offsets if placed.along_rows else placed.offsets.T
    words = np.stack([np.unique(offsets[r, : WIDEST // item] * item // WORD) for r in range(CORE)])
    return Group(title, np.arange(CORE), words, None)


def _worst(kernel: Kernel, site: Site, view: View, direction: str, title: str, row: AccessRow) -> Group | None:
    conditions = conditions_of(site, direction)
    known = sample(site, kernel, typical_sizes(kernel), (view.offset, *conditions))
    item = view.buffer.dtype.nbytes
    width = min(_run(view) * item, WIDEST)
    slot = int(view.buffer.size.range[1] or 1)
    first = known.of(view.offset) % slot * item
    mask = known.mask(*conditions)
    each = max(width // WORD, 1)
    threads = known.threads
    ragged = -threads % WARP
    words: Array = np.where(True if mask is None else mask, first // WORD, -BANKS)
    words = np.pad(words, ((0, 0), (0, ragged)), constant_values=-BANKS).reshape(-1, WARP // each)
    lanes: Array = np.tile(np.arange(threads + ragged), len(first)).reshape(-1, WARP // each)
    best: Group | None = None
    seen: set[bytes] = set()
    for starts, mine in zip(words, lanes, strict=True):
        if (starts < 0).all() or starts.tobytes() in seen:
            continue
        seen.add(starts.tobytes())
        asked = np.where(starts[:, None] < 0, -1, starts[:, None] + np.arange(each))
        group = Group(title, mine, asked, row)
        if best is None or group.wavefronts > best.wavefronts:
            best = group
    return best


def _run(view: View) -> int:
    """Return the number of neighbouring elements that a lane accesses at once."""
    if not view.layout.is_static:
        return 1
    count_ = int(view.layout.size)
    places: Array = np.broadcast_to(np.asarray(view.layout(np.arange(count_)), np.int64), (count_,))
    return count_ if np.array_equal(places, np.arange(count_)) else 1


def _panel(
    drawing: Drawing, y: float, placed: Placement, group: Group, buffer: Buffer, most: int, values: Kept | None
) -> tuple[float, list[str]]:
    """Draw one access, with bars on the scale of the picture's busiest bank; return the next position and the words."""
    turns = group.wavefronts
    if group.row is None:
        told = f"{group.title}: 8 rows of 16 bytes, a core matrix, take {count(turns, 'wavefront')}"
    else:
        lanes = f"lanes {int(group.lanes.min())} to {int(group.lanes.max())}"
        told = f"{group.title}: {lanes} together take {count(turns, 'wavefront')}"
        whole = "the fewest there could be" if group.row.degree == 1 else f"{group.row.degree:g} times the fewest"
        told += f"; the access as a whole: {whole}"
    drawing.text(0, y + 12, told, "alarm" if turns > 1 else "memory", 11)
    item = buffer.dtype.nbytes
    bank = placed.offsets * item // WORD % BANKS
    word = placed.offsets * item // WORD
    asked = np.unique(group.words[group.words >= 0])
    touched = np.isin(word, asked)
    hard = np.isin(bank, np.flatnonzero(group.load > 1)) & touched
    lane_of = {int(w): int(lane) for lane, mine in zip(group.lanes, group.words, strict=True) for w in mine if w >= 0}
    rows = _shown(np.asarray(touched.any(axis=1)), MOST_ROWS)
    cols = _shown(np.asarray(touched.any(axis=0)), MOST_COLS)
    top, left = y + 34, 34.0
    for j, c in enumerate(cols):
        drawing.text(left + (j + 0.5) * CELL_W, top - 4, str(c), "faint", 8, "middle")
    for i, r in enumerate(rows):
        at = top + i * CELL_H
        drawing.text(left - 5, at + 12.5, str(r), "faint", 9, "end")
        if i and rows[i - 1] + 1 != r:
            drawing.line(left - 22, at, left, at, "edge", dashed=True)
    cells = [(i, j, r, c) for i, r in enumerate(rows) for j, c in enumerate(cols)]
    for i, j, r, c in sorted(cells, key=lambda cell: int(bank[cell[2], cell[3]])):
        box = (left + j * CELL_W, top + i * CELL_H, CELL_W, CELL_H)
        drawing.rect(*box, wheel(int(bank[r, c])), "hair", tip=_tip(values, buffer, lane_of, word, r, c))
    for i, j, r, c in sorted(cells, key=lambda cell: bool(touched[cell[2], cell[3]])):
        ink = "ink" if touched[r, c] else "dim"
        drawing.text(left + (j + 0.5) * CELL_W, top + i * CELL_H + 12, str(bank[r, c]), ink, 9, "middle")
    for i, r in enumerate(rows):
        for j, c in enumerate(cols):
            if touched[r, c]:
                box = (left + j * CELL_W + 1, top + i * CELL_H + 1, CELL_W - 2, CELL_H - 2)
                drawing.rect(*box, "none", "red" if hard[r, c] else "green")
    below = top + len(rows) * CELL_H
    elided = _elided(rows, bank.shape[0], "row") + _elided(cols, bank.shape[1], "column")
    if elided:
        drawing.text(left, below + 12, f"drawn: {' and '.join(elided)}", "note", 10)
    if len(cols) <= NARROW:
        _bars(drawing, below - BAR_H, left + len(cols) * CELL_W + 30, group, 17, most)
        below += 18
    else:
        below = _bars(drawing, below + 22, left, group, 24, most)
    busy = group.load[group.load > 0]
    said = [f"  {told}", f"    {len(busy)} of {BANKS} banks give {len(asked)} words, the busiest {turns}"]
    return below + 16, [*said, "    words a bank: " + "".join(_digit(n) for n in group.load)]


def _tip(values: Kept | None, buffer: Buffer, lane_of: dict[int, int], word: Array, r: int, c: int) -> str:
    """Write an element's tip: its value if known, its bank, and the lane that requests it."""
    held = int(word[r, c])
    said = f"{buffer.name}[{r}, {c}]"
    if values is not None and values.name == buffer.name and values.values.ndim == len(values.outer) + 2:
        said = tip_of(values, place_of(values), (r, c))
    elif held not in lane_of:
        return ""
    said += f", bank {held % BANKS}"
    return f"{said}, lane {lane_of[held]} asks for it" if held in lane_of else said


def _bars(drawing: Drawing, y: float, left: float, group: Group, wide: float, most: int) -> float:
    """Draw a bar for the words of each bank."""
    for b, n in enumerate(group.load):
        high = max((BAR_H - 24) * n / most, LEAST if n else 0)
        x = left + b * wide
        drawing.rect(x + 1, y + BAR_H - 12 - high, wide - 2, max(high, 1), "bad" if n > 1 else wheel(b), "edge")
        drawing.text(x + wide / 2, y + BAR_H, str(b), "faint", 8, "middle")
        if n:
            drawing.text(x + wide / 2, y + BAR_H - 14 - high, str(n), "alarm" if n > 1 else "faint", 8, "middle")
    drawing.text(left + BANKS * wide + 6, y + BAR_H, "bank", "faint", 9)
    drawing.text(left, y + BAR_H + 14, "words that each bank gives; one a wavefront", "faint", 9)
    return y + BAR_H + 18


def _shown(touched: Array, most: int) -> list[int]:
    """Choose the rows or columns to draw: all if there are few, else those that are accessed, and the first ones."""
    extent = len(touched)
    if extent <= most:
        return list(range(extent))
    chosen = list(np.flatnonzero(touched)[:most])
    chosen += [i for i in range(extent) if i not in chosen][: most - len(chosen)]
    return sorted(int(i) for i in chosen)


def _elided(shown: list[int], extent: int, word: str) -> list[str]:
    return [] if len(shown) == extent else [f"{len(shown)} of {count(extent, word)}"]


def _digit(n: int) -> str:
    return "." if n == 0 else str(n) if n < 10 else "+"
