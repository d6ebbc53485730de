"""Pictures of operands that an instruction reads or writes as a whole, in swizzled rows of shared memory."""

from __future__ import annotations

import numpy as np

from fireiron.kernel.lower.span import swizzle_of
from fireiron.language.atom import Atom, Operand
from fireiron.show.svg import Drawing, hue

ROWS = 8  # after which each of the patterns repeats
CHUNK = 16  # bytes that stay together
CELL_W, CELL_H = 34.0, 19.0


def is_whole(operand: Operand, atom: Atom) -> bool:
    """Say whether an instruction reads the operand as a whole, by its first address: no thread holds elements."""
    if operand.memory.registers or operand.layout.rank != 2 or operand.layout[0].size != 1:
        return False
    return atom.unit.size != 1 or (atom.kind != "MatMul" and atom.nbytes == 0 and not any(atom.shape))


def chunks(span: int) -> list[list[tuple[int, int]]]:
    """List the (row, chunk of 16 bytes) that lies at each place of 8 rows of `span` bytes.

    Example:
        >>> chunks(32)[4]
        [(4, 1), (4, 0)]
    """
    swizzle = swizzle_of(span, 1)
    places = np.arange(ROWS * span // CHUNK) * CHUNK
    stored = places if swizzle is None else np.asarray(swizzle(places))
    found = [[(0, 0)] * (span // CHUNK) for _ in range(ROWS)]
    for place, at in zip(places.tolist(), stored.tolist(), strict=True):
        found[at // span][at % span // CHUNK] = (place // span, place % span // CHUNK)
    return found


def size(operand: Operand) -> tuple[int, int]:
    """Return the rows and columns of cells in a whole operand's drawing."""
    return (ROWS, operand.span // CHUNK) if operand.span else (1, 1)


def lines(operand: Operand) -> int:
    """Return the number of rows of shared memory that a product's operand fills; 0 for one without a shape."""
    rows, cols = operand.shape
    return 0 if rows * cols == 1 or operand.dtype is None else cols if operand.role == "B" else rows


def taken(operand: Operand) -> int:
    """Return the number of chunks of a row that one instruction reads (its K); all for an operand without a shape."""
    rows, cols = operand.shape
    if not lines(operand) or operand.dtype is None:
        return operand.span // CHUNK
    return (rows if operand.role == "B" else cols) * operand.dtype.bits // 8 // CHUNK


def head(operand: Operand) -> str:
    """Describe the rows of a whole operand that are drawn; "" for an operand without a shape."""
    many = lines(operand)
    along = "columns" if operand.role == "B" else "rows"
    return f"{ROWS} of its {many} {along}, {operand.span} B of K each" if operand.span and many else ""


def notes(operand: Operand) -> list[str]:
    """Describe how a whole operand lies in memory."""
    if not operand.span:
        where = "a tensor map" if operand.memory.name == "GL" else "the Move"
        return [f"taken as a whole: {where} says how large it is, and where its lines lie"]
    said = [f"taken as a whole, in rows of {operand.span} B in {operand.memory}"]
    said.append(f"a cell: row.chunk of {CHUNK} B; the next {ROWS} rows alike")
    mine, every = taken(operand), operand.span // CHUNK
    if mine < every:
        said.append(f"in colour: the {mine} of {every} chunks of a row that one instruction takes")
    return said


def draw(drawing: Drawing, operand: Operand, left: float, top: float) -> None:
    """Draw the cells of a whole operand."""
    if not operand.span:
        drawing.rect(left, top, CELL_W, CELL_H, "empty", "hair")
        return
    for r, row in enumerate(chunks(operand.span)):
        drawing.text(left - 6, top + r * CELL_H + 13, str(r), "faint", 9, "end")
        for c, (line, chunk) in enumerate(row):
            x, y = left + c * CELL_W, top + r * CELL_H
            mine = chunk < taken(operand)
            tip = f"chunk {chunk} of row {line}, {CHUNK} B, lies at byte {r * operand.span + c * CHUNK}"
            drawing.rect(x, y, CELL_W, CELL_H, hue(chunk) if mine else "empty", "hair", tip=tip)
            ink = "ink" if mine else "dim"
            drawing.text(x + CELL_W / 2, y + 13, f"{line}.{chunk}", ink, 10, "middle")


def table(operand: Operand) -> list[str]:
    """Write the cells of a whole operand as text."""
    if not operand.span:
        return []
    return [
        f"  {r:>2}: " + " ".join(f"{line}.{chunk}" for line, chunk in row) for r, row in enumerate(chunks(operand.span))
    ]
