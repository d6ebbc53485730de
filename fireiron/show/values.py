"""Pictures of values: the elements of a tile that a simulation kept, with the threads that hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fireiron.base.errors import UsageError
from fireiron.show.picture import Picture, wrapped
from fireiron.show.svg import SHADES, Drawing, shade, width_of
from fireiron.simulate.kept import Kept

Array = npt.NDArray[Any]

MOST_ROWS, MOST_COLS = 32, 24
CELL_W, CELL_H = 38.0, 18.0
LEFT = 34.0


def values(kept: Kept, *at: int) -> Picture:
    """Draw the values of a tile that a simulation kept: each element is a cell, red above zero and blue below.

    The tip of a cell gives the whole value, and for registers the threads that hold it.

    Args:
        kept: a tile of `schedule.simulate(keep=...)`, by its name in `.kept`.
        at: numbers of the unit and of the ring slot: indices of the dimensions before the tile's rows and columns. By
            default the first unit, and the slot with the most written elements.

    Raises:
        UsageError: `no-such-tile` where the tile has no such unit or slot.

    Example:
        >>> import fireiron as fi
        >>> from fireiron.schedules import simt
        >>> found = simt.listing2(fi.matmul(128, 128, 16)).simulate(blocks=1, keep="a_sh")
        >>> print(str(values(found.kept["a_sh"])).splitlines()[0])
        a_sh: 128x8 f32 in SH
    """
    outer = place_of(kept, at)
    shape = kept.values.shape[len(kept.outer) :]
    flat = (int(np.prod(shape[:-1])), shape[-1]) if shape else (1, 1)
    found, written = (array[outer].reshape(flat) for array in (kept.values, kept.written))
    rows, cols = min(flat[0], MOST_ROWS), min(flat[1], MOST_COLS)
    drawing = Drawing(f"values of {kept.name}")
    drawing.text(0, 12, kept.title, bold=True)
    chosen = ", ".join(f"{name} {n}" for name, n in zip(kept.outer, outer, strict=True))
    part = "" if (rows, cols) == flat else f"the first {rows}x{cols} of {flat[0]}x{flat[1]}"
    said = "; ".join(each for each in (chosen, part) if each)
    if said:
        drawing.text(0, 28, said, "faint", 10)
    top = 54.0
    largest = _largest(found[written])
    for c in range(cols):
        drawing.text(LEFT + (c + 0.5) * CELL_W, top - 5, str(c), "faint", 8, "middle")
    for r in range(rows):
        drawing.text(LEFT - 6, top + r * CELL_H + 13, str(r), "faint", 9, "end")
        for c in range(cols):
            x, y = LEFT + c * CELL_W, top + r * CELL_H
            tip = tip_of(kept, outer, np.unravel_index(r * flat[1] + c, shape))
            fill = shade(float(found[r, c]), largest) if written[r, c] else "empty"
            drawing.rect(x, y, CELL_W, CELL_H, fill, "hair", tip=tip)
    for r in range(rows):
        for c in range(cols):
            label = _short(float(found[r, c])) if written[r, c] else "-"
            drawing.text(LEFT + (c + 0.5) * CELL_W, top + r * CELL_H + 13, label, size=9, anchor="middle")
    _legend(drawing, top + rows * CELL_H + 10, largest)
    lines = [
        "  " + " ".join((_short(float(v)) if w else "-").rjust(6) for v, w in zip(one[:8], ours[:8], strict=True))
        for one, ours in zip(found[:8], written[:8], strict=True)
    ]
    more = ["  …"] if flat[0] > 8 or flat[1] > 8 else []
    return Picture(drawing.title, drawing, wrapped(kept.title, *([said] if said else []), *lines, *more))


def place_of(kept: Kept, at: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the numbers of unit and slot: those given, else the first unit and the slot with most written elements.

    Raises:
        UsageError: `no-such-tile`.
    """
    extents = kept.values.shape[: len(kept.outer)]
    if len(at) > len(extents) or any(not 0 <= n < extent for n, extent in zip(at, extents, strict=False)):
        has = " and ".join(f"{extent} {name}s" for name, extent in zip(kept.outer, extents, strict=True))
        raise UsageError("no-such-tile", f"{kept.name} has no tile {', '.join(map(str, at))}", fix=f"it has {has or 1}")
    found = list(at)
    for name, extent in zip(kept.outer[len(at) :], extents[len(at) :], strict=True):
        parts = [int(kept.written[(*found, n)].sum()) for n in range(extent)]
        found.append(int(np.argmax(parts)) if name == "slot" else 0)
    return tuple(found)


def tip_of(kept: Kept, outer: tuple[int, ...], inner: tuple[Any, ...]) -> str:
    """Write an element's tip: its value, and the threads that hold it."""
    at = (*outer, *(int(n) for n in inner))
    name = f"{kept.name}[{', '.join(str(int(n)) for n in inner)}]"
    if not kept.written[at]:
        return f"{name} is not written yet"
    said = f"{name} = {float(kept.values[at]):.9g}"
    if kept.threads is not None and kept.registers is not None and kept.threads[at] >= 0:
        said += f", thread {int(kept.threads[at])}, register {int(kept.registers[at])}"
    return said


def _largest(found: Array) -> float:
    finite = np.abs(found.astype(np.float64)[np.isfinite(found.astype(np.float64))])
    return float(finite.max(initial=0.0)) or 1.0


def _short(value: float) -> str:
    """Write a value in at most six characters.

    Example:
        >>> _short(0.0123456), _short(-123456.0), _short(1.0)
        ('0.0123', '-1e+05', '1')
    """
    return next((said for digits in (4, 3, 2, 1) if len(said := f"{value:.{digits}g}") <= 6), f"{value:.0e}")


def _legend(drawing: Drawing, y: float, largest: float) -> None:
    """Draw a legend of the shades, from the most negative value to the most positive."""
    low, high = _short(-largest), _short(largest)
    drawing.text(LEFT, y + 10, low, "faint", 9)
    x = LEFT + width_of(low, 9) + 6
    for i in range(SHADES):
        drawing.rect(x + 14 * i, y, 14, 12, shade(2 * i / (SHADES - 1) - 1, 1.0), "hair")
    drawing.text(x + 14 * SHADES + 6, y + 10, high, "faint", 9)
