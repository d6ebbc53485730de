"""Fragments: which thread holds which element of an atom's operand, and in which register."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from fireiron.atoms.table import chosen_from
from fireiron.base.text import by, count
from fireiron.language.atom import Atom, Operand
from fireiron.show import panel
from fireiron.show.picture import Picture, wrapped
from fireiron.show.svg import Drawing, hue, width_of

Array = npt.NDArray[Any]

RUNS = (2, 4, 8, 16, 32, 64, 128)
MOST = 16  # rows and columns that are drawn
WIDEST = 900.0  # of a drawing of three operands as a product is written
CELL_W, CELL_H = panel.CELL_W, panel.CELL_H
GAP = 26.0
HEAD = 50.0
NOBODY = -1
REGISTER = 32  # bits


@attrs.frozen(eq=False)
class Owners:
    """Hold the threads and registers of an operand's elements.

    Args:
        operand: the operand.
        whole: whether the instruction reads the operand as a whole, so that no thread holds elements.
        thread: (rows, columns) array: number of the first thread that holds the element.
        register: (rows, columns) array: position of the element among the thread's elements, which fill its registers
            in this order.
        copies: (rows, columns) array: number of threads that hold the element.
        run: (rows, columns) of the neighbouring elements that each array entry stands for; one thread holds them as
            consecutive elements.
    """

    operand: Operand
    whole: bool
    thread: Array
    register: Array
    copies: Array
    run: tuple[int, int] = (1, 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the rows and columns."""
        rows, cols = self.thread.shape
        return rows, cols

    @property
    def shared(self) -> bool:
        """Say whether each element is held by several threads, and all by the same number."""
        return int(self.copies.min()) == int(self.copies.max()) > 1

    def packed(self, down: int, right: int) -> Owners | None:
        """Combine entries to runs of down x right neighbours; None where neighbours are not consecutive in a thread."""
        rows, cols = self.shape
        if rows % down or cols % right:
            return None
        blocks = [
            a.reshape(rows // down, down, cols // right, right) for a in (self.thread, self.register, self.copies)
        ]
        steps = (np.arange(down)[:, None] + np.arange(right)[None, :])[None, :, None, :]
        grown = [block - block[:, :1, :, :1] for block in blocks]
        if grown[0].any() or grown[2].any() or (grown[1] != steps).any():
            return None
        thread, register, copies = (block[:, 0, :, 0] for block in blocks)
        return Owners(self.operand, self.whole, thread, register, copies, (down, right))


@attrs.frozen
class Unit:
    """Describe the part of an operand that is drawn, because it repeats.

    Args:
        rows, cols: extents of the part.
        down: what the next part below adds to (thread, register); None without a next part.
        right: what the next part to the right adds.
        whole: whether this describes all elements.
    """

    rows: int
    cols: int
    down: tuple[int, int] | None = None
    right: tuple[int, int] | None = None
    whole: bool = True


def fragment(atom: Atom | str, lanes: int | tuple[int, ...] = 0) -> Picture:
    """Draw the thread-value layout of each operand of an atom.

    A cell is an element at its row and column; it shows the thread and the element's position among the thread's
    elements. Narrow elements share registers in the order of these positions. For a large operand, only the part that
    repeats is drawn, with a note how it repeats.

    Args:
        atom: a row of the table of atoms, or the start of its name.
        lanes: numbers of threads whose elements are outlined.

    Raises:
        DecompositionError: `unknown-atom`.

    Example:
        >>> print(fragment("mma.m16n8k8.f32.f16"))  # doctest: +ELLIPSIS
        mma.m16n8k8.f32.f16: a Warp computes MatMul 16x8x8
        a cell: thread.element; thread 0 outlined
        A 16x8 f16 in FR, 4 elements a thread, in 2 registers
        ...
    """
    (row, *_) = chosen_from(atom)
    marked = (lanes,) if isinstance(lanes, int) else lanes
    drawing = Drawing(f"{row.name}: who holds which element")
    headline = f"{row.name}: a {row.unit} {_does(row)}"
    drawing.text(0, 12, headline, bold=True)
    words = [headline]
    found = [drawable(owners(operand, row)) for operand in row.operands]
    if any((each.thread != NOBODY).any() for each in found):
        threads = "thread" if len(marked) == 1 else "threads"
        words.append(f"a cell: thread.element; {threads} {', '.join(map(str, marked))} outlined")
        drawing.text(0, 28, words[-1], "faint", 11)
    units = [unit_of(each) for each in found]
    titled = max(width_of(line, 11) for line in _head(found[0]))
    left = max(16 + units[0].cols * CELL_W, titled) + GAP
    if row.kind == "MatMul" and len(found) == 3 and left + max(u.cols for u in units[1:]) * CELL_W <= WIDEST:
        # As a product is written: B above C, A to the left of C.
        above = HEAD + units[1].rows * CELL_H + GAP + 18
        starts = [(0.0, 40 + above), (left, 40.0), (left, 40 + above)]
    else:
        starts, y = list[tuple[float, float]](), 40.0
        for unit in units:
            starts.append((0.0, y))
            y += HEAD + unit.rows * CELL_H + GAP + 14
    for each, (x, y) in zip(found, starts, strict=True):
        beside = any(x < other and y <= below for other, below in starts)
        words += _operand(drawing, each, x, y, marked, left - 30 if beside else math.inf)
    return Picture(headline, drawing, wrapped(*words))


def owners(operand: Operand, atom: Atom) -> Owners:
    """Find the threads that hold each element; units inside a warp number threads as lanes of the warp."""
    rows, cols = operand.shape
    thread, register = (np.full((rows, cols), NOBODY) for _ in range(2))
    copies = np.zeros((rows, cols), int)
    whole = panel.is_whole(operand, atom)
    if operand.layout.rank == 2 and not whole:
        threads, values = (int(mode.size) for mode in operand.layout.modes)
        place = np.broadcast_to(
            operand.layout[0](np.arange(threads))[:, None] + np.asarray(operand.layout[1](np.arange(values)))[None],
            (threads, values),
        )
        level = atom.unit.threads
        lanes = np.asarray(np.arange(threads) if level is None or level.size != threads else level(np.arange(threads)))
        flat = place.reshape(-1)
        first = np.argsort(flat, kind="stable")
        elements, where, many = np.unique(flat[first], return_index=True, return_counts=True)
        inside = elements < rows * cols
        elements, chosen, many = elements[inside], first[where[inside]], many[inside]
        thread[elements % rows, elements // rows] = np.broadcast_to(lanes, (threads,))[chosen // values]
        register[elements % rows, elements // rows] = chosen % values
        copies[elements % rows, elements // rows] = many
    return Owners(operand, whole, thread, register, copies)


def drawable(found: Owners) -> Owners:
    """Combine elements to the shortest runs for which a repeating part is small enough to draw."""
    if unit_of(found).whole:
        return found
    for length in RUNS:
        for down, right in ((length, 1), (1, length)):
            packed = found.packed(down, right)
            if packed is not None and unit_of(packed).whole:
                return packed
    return found


def unit_of(found: Owners) -> Unit:
    """Choose the largest part, at most MOST x MOST, that repeats with other threads or registers."""
    rows, cols = found.shape
    if found.whole:
        return Unit(*panel.size(found.operand))
    for r in _parts(rows):
        for c in _parts(cols):
            down, right = _shift(found, r, 0), _shift(found, 0, c)
            if (down is not None or r == rows) and (right is not None or c == cols) and _tiles(found, r, c):
                return Unit(r, c, down if r < rows else None, right if c < cols else None)
    return Unit(min(rows, MOST), min(cols, MOST), whole=False)


def _parts(extent: int) -> list[int]:
    return [n for n in range(min(extent, MOST), 0, -1) if extent % n == 0]


def _shift(found: Owners, r: int, c: int) -> tuple[int, int] | None:
    """Return the change of (thread, register) of the upper left element by a step of (r, c); None at the edge."""
    rows, cols = found.shape
    if not (0 <= r < rows and 0 <= c < cols) or r + c == 0:
        return None
    thread, register = (int(a[r, c] - a[0, 0]) for a in (found.thread, found.register))
    return thread, register


def _tiles(found: Owners, r: int, c: int) -> bool:
    """Say whether each step from part to part adds the same to thread and register everywhere."""
    rows, cols = found.shape
    down, right = _shift(found, r, 0) or (0, 0), _shift(found, 0, c) or (0, 0)
    i, j = np.indices((rows, cols))
    for k, array in enumerate((found.thread, found.register)):
        told = array[i % r, j % c] + i // r * down[k] + j // c * right[k]
        if (told != array).any():
            return False
    return True


def _does(atom: Atom) -> str:
    extents = by(atom.shape)
    if atom.kind == "MatMul":
        return f"computes MatMul {extents}"
    if atom.kind == "Reduce":
        return f"folds a value of each thread by {atom.fold}"
    each = " a thread" if atom.unit.size != 1 else ""
    moved = f"{atom.nbytes} B{each}" if atom.nbytes else f"{extents} elements" if any(atom.shape) else "a whole box"
    return {"Move": "moves", "Add": "adds"}.get(atom.kind, "exchanges") + f" {moved}"


def _operand(drawing: Drawing, found: Owners, x: float, y: float, marked: tuple[int, ...], room: float) -> list[str]:
    """Draw an operand, with notes no wider than `room`; return its description in words."""
    operand, unit = found.operand, unit_of(found)
    title, held = _head(found)
    drawing.text(x, y + 12, title, "memory" if not operand.memory.registers else "ink", 11, bold=True)
    drawing.text(x, y + 25, held, "faint", 10)
    head = f"{title}, {held}" if held else title
    top, left = y + HEAD - 8, x + 16
    if found.whole:
        panel.draw(drawing, operand, left, top)
        _notes(drawing, panel.notes(operand), left, top + unit.rows * CELL_H, room)
        return [head, *panel.table(operand), *(f"  {note}" for note in panel.notes(operand))]
    for r in range(unit.rows):
        drawing.text(x - 4 + 14, top + r * CELL_H + 13, str(r * found.run[0]), "faint", 9, "end")
    for c in range(unit.cols):
        drawing.text(left + (c + 0.5) * CELL_W, top - 3, str(c * found.run[1]), "faint", 9, "middle")
    cells = [(r, c) for r in range(unit.rows) for c in range(unit.cols)]
    for r, c in sorted(cells, key=lambda cell: int(found.thread[cell]) % 32):
        holder = int(found.thread[r, c])
        fill = "empty" if holder == NOBODY else hue(holder)
        drawing.rect(left + c * CELL_W, top + r * CELL_H, CELL_W, CELL_H, fill, "hair", tip=_tip(found, r, c))
    for r, c in cells:
        _label(drawing, found, r, c, left + c * CELL_W, top + r * CELL_H)
    for r in range(unit.rows):
        for c in range(unit.cols):
            if int(found.thread[r, c]) in marked:
                drawing.rect(left + c * CELL_W, top + r * CELL_H, CELL_W, CELL_H, "none", "strong")
    notes = repeats(found, unit)
    _notes(drawing, notes, left, top + unit.rows * CELL_H, room)
    return [head, *_table(found, unit), *(f"  {note}" for note in notes)]


def _head(found: Owners) -> tuple[str, str]:
    """Describe an operand, and the number of elements of a thread."""
    operand = found.operand
    kind = operand.dtype.name if operand.dtype else "bytes" if operand.layout.rank == 2 and _bytes(operand) else "any"
    rows, cols = operand.shape
    extents = "" if found.whole and rows * cols == 1 else f"{rows}x{cols} {kind} "
    held = panel.head(operand) if found.whole else ""
    if operand.layout.rank == 2 and not found.whole:
        held = f"{count(operand.registers, 'element')} a thread"
        if not operand.memory.registers:
            held += ", by address"
        elif operand.dtype is not None:
            held += f", in {count(-(-operand.registers * operand.dtype.bits // REGISTER), 'register')}"
    return f"{operand.role} {extents}in {operand.memory}", held


def _notes(drawing: Drawing, notes: list[str], x: float, y: float, room: float) -> None:
    most = max(24, int(min(room, WIDEST - x) / width_of("x", 10)))
    for i, line in enumerate(line for note in notes for line in textwrap.wrap(note, most)):
        drawing.text(x, y + 13 + 12 * i, line, "note", 10)


def _bytes(operand: Operand) -> bool:
    return operand.dtype is None and operand.shape[0] in (1, 32)


def _label(drawing: Drawing, found: Owners, r: int, c: int, x: float, y: float) -> None:
    thread, register = int(found.thread[r, c]), int(found.register[r, c])
    if thread != NOBODY:
        label = f"{thread}.{register}" + ("+" if found.copies[r, c] > 1 and not found.shared else "")
        size = 10.0 if width_of(label, 10) <= CELL_W - 2 else 8.5
        drawing.text(x + CELL_W / 2, y + 13, label, size=size, anchor="middle")


def repeats(found: Owners, unit: Unit) -> list[str]:
    """Describe how the drawn part repeats, and which elements several threads hold."""
    rows, cols = found.operand.shape
    unit = attrs.evolve(unit, rows=unit.rows * found.run[0], cols=unit.cols * found.run[1])
    notes: list[str] = []
    if found.run != (1, 1):
        notes.append(f"a cell: {found.run[0]}x{found.run[1]} elements, whose numbers count on")
    if not unit.whole:
        notes.append(f"the upper left {unit.rows}x{unit.cols} of {rows}x{cols}; what follows has no simple repetition")
    elif (unit.rows, unit.cols) != (rows, cols):
        said = [f"{unit.rows}x{unit.cols} of {rows}x{cols}"]
        said += [f"{unit.cols} columns on: {_adds(unit.right)}"] if unit.right else []
        said += [f"{unit.rows} rows down: {_adds(unit.down)}"] if unit.down else []
        notes.append("; ".join(said))
    if found.operand.opaque or found.operand.pitch:
        notes.append("the ISA leaves open who has which element: this order stands in for the hardware's")
    most = int(found.copies.max(initial=0))
    if most > 1:
        notes.append(
            f"{'each element is held by' if found.shared else '+: held by'} {most} threads, the first is named"
        )
    if (found.thread == NOBODY).all():
        notes.append("not dealt out to threads: the unit reads it as a whole")
    return notes


def _tip(found: Owners, r: int, c: int) -> str:
    """Write an element's tip: its threads, and its register there."""
    thread, element, dtype = int(found.thread[r, c]), int(found.register[r, c]), found.operand.dtype
    if thread == NOBODY:
        return ""
    place = f"({r * found.run[0]}, {c * found.run[1]})"
    register = ""
    if dtype is not None and found.operand.memory.registers:
        each = max(1, REGISTER // dtype.bits)
        register = f", register {element // each}" if dtype.bits <= REGISTER else f", registers from {element * 2}"
    return f"{found.operand.role}{place}: thread {thread}, its element {element}{register}"


def _adds(step: tuple[int, int]) -> str:
    said = [f"{name} +{n}" for name, n in zip(("thread", "element"), step, strict=True) if n]
    return " and ".join(said) or "the same again"


def _table(found: Owners, unit: Unit, most: int = 8) -> list[str]:
    """Write the first rows as text, no wider than a terminal."""
    cells = [
        [f"{found.thread[r, c]}.{found.register[r, c]}" for c in range(min(unit.cols, most))]
        for r in range(min(unit.rows, most))
    ]
    if (found.thread == NOBODY).all():
        return []
    wide = max(len(cell) for row in cells for cell in row)
    more = "  …" if unit.cols > most else ""
    lines = [
        f"  {r * found.run[0]:>2}: " + " ".join(cell.rjust(wide) for cell in row) + more for r, row in enumerate(cells)
    ]
    return [*lines, "   …"] if unit.rows > most else lines
