"""Timelines: what a block's roles do one after the other, what is in flight meanwhile, and where they wait."""

from __future__ import annotations

from collections.abc import Mapping

from fireiron.base.errors import UsageError
from fireiron.base.text import count
from fireiron.estimate.model import GL_LATENCY
from fireiron.show.lowering import Lowers, lowered_of
from fireiron.show.picture import Picture, wrapped
from fireiron.show.schedule_time import Box, Fill, Policy, Row, Timeline, time_of
from fireiron.show.svg import Drawing, width_of
from fireiron.simulate.trace import Trace, trace

WIDTH = 760.0
LEFT = 132.0
ROW_H = 26.0
SLOT_H = 18.0
MOST_LINES = 40

ROWS: Mapping[Row, str] = {
    "load": "start loads",
    "put": "fill shared",
    "compute": "compute",
    "store": "store",
    "wait": "wait",
}
_FILLS: Mapping[Row, str] = {"load": "load", "put": "added", "compute": "math", "store": "spec", "wait": "wait"}
_SAID: Mapping[Policy, str] = {
    "simulated": "order of a simulation: a box is one step; an asynchronous copy lands when its group is awaited",
    "modelled": "modelled, not measured: issue clocks of the instructions, one block alone on an SM, warps in step,\n"
    f"{GL_LATENCY} clocks to global memory",
}


def timeline(schedule: Lowers, policy: Policy = "simulated", block: int = 0, chunks: int = 6, **sizes: int) -> Picture:
    """Draw what one block does over time.

    Above, a row for each kind of work of each role: loads that are started, shared memory that is filled, products,
    stores, waits. Vertical lines are barriers. Below, a row for each ring slot: amber while its data is in flight,
    green from its arrival to its last reader. Numbers are iterations of the outer loop.

    Args:
        schedule: a finished one; one block of it runs on the simulator.
        policy: `simulated` counts events; `modelled` gives them issue clocks and latencies, so that overlap shows.
        block: which block.
        chunks: iterations of the outer loop that are drawn, the first ones and the last.
        sizes: values of symbols.

    Raises:
        UsageError: `unfinished`, `unknown-policy`.
    """
    kernel = lowered_of(schedule)
    if kernel is None:
        raise UsageError("unfinished", "timeline needs a finished schedule", fix="close the chain by .done()")
    if policy not in _SAID:
        raise UsageError("unknown-policy", f"no policy is called {policy!r}", fix='use "simulated" or "modelled"')
    return drawn(trace(kernel, sizes, block, chunks), policy)


def drawn(traced: Trace, policy: Policy) -> Picture:
    """Draw a trace."""
    found = time_of(traced, policy)
    drawing = Drawing(f"timeline of one block, {policy}")
    what = f"one block of {count(traced.threads, 'thread')}"
    unit = "steps" if policy == "simulated" else "clocks, modelled"
    drawing.text(0, 12, f"{what}: {found.total:.0f} {unit}", bold=True)
    y = 16.0
    for line in _SAID[policy].splitlines():
        y += 14
        drawing.text(0, y, line, "faint", 11)
    y += 16
    scale = WIDTH / max(found.total, 1.0)
    top = y
    for role in dict.fromkeys(box.role for box in found.boxes):
        y = _role(drawing, y, role, found, scale)
    y += 8
    drawing.text(0, y + 9, "in flight, held", "faint", 10)
    y += 14
    y = _slots(drawing, y, found, traced, scale)
    for at, _, reason in found.barriers:
        drawing.line(LEFT + at * scale, top, LEFT + at * scale, y, "blue" if reason.startswith("Block") else "edge")
    for at, said in found.gaps:
        x = LEFT + at * scale
        wide = scale if policy == "simulated" else 240 * scale
        drawing.rect(x, top, max(wide, 6), y - top, "ground")
        drawing.line(x + max(wide, 6) / 2, top, x + max(wide, 6) / 2, y, "orange", dashed=True)
        drawing.text(x, y + 12, said, "note", 9, "middle")
    _legend(drawing, y + 30)
    return Picture(drawing.title, drawing, wrapped(f"{what}; {' '.join(_SAID[policy].splitlines())}", *_lines(found)))


def _role(drawing: Drawing, y: float, role: str, found: Timeline, scale: float) -> float:
    mine = [box for box in found.boxes if box.role == role]
    if role:
        drawing.text(0, y + 12, role, "link", bold=True)
        y += 18
    for row, said in ROWS.items():
        if all(box.row != row for box in mine):
            continue
        drawing.text(LEFT - 8, y + 17, said, "ink", 11, "end")
        drawing.rect(LEFT, y + 3, WIDTH, ROW_H - 6, "panel")
        for box in (box for box in mine if box.row == row):
            _box(drawing, y, box, scale)
        y += ROW_H
    return y


def _box(drawing: Drawing, y: float, box: Box, scale: float) -> None:
    x, wide = LEFT + box.start * scale, max((box.end - box.start) * scale, 1.5)
    late = f", {box.stall:.0f} clocks" if box.stall else ""
    chunk = "" if box.chunk is None else f", iteration {box.chunk}"
    fill = "bad" if box.row == "wait" and box.stall else _FILLS[box.row]
    drawing.rect(x, y + 3, wide, ROW_H - 6, fill, "edge", 2, tip=f"{box.label}{chunk}{late}")
    number = "" if box.chunk is None else str(box.chunk)
    for text in (f"{number} {box.label}".strip(), number):
        if text and width_of(text, 9) <= wide - 3:
            drawing.text(x + wide / 2, y + 16, text, size=9, anchor="middle")
            return


def _slots(drawing: Drawing, y: float, found: Timeline, traced: Trace, scale: float) -> float:
    """Draw a row for each slot; the loads of one role to the same slot stand below each other."""
    touches = sorted({fill.touch for fill in found.fills}, key=lambda t: (t.memory, t.buffer, t.slot))
    for touch in touches:
        name = touch.buffer if traced.slots.get(touch.buffer, 1) == 1 else f"{touch.buffer}[{touch.slot}]"
        drawing.text(LEFT - 8, y + 13, name, "memory", 11, "end")
        drawing.rect(LEFT, y + 3, WIDTH, SLOT_H - 6, "panel")
        for fill in (fill for fill in found.fills if fill.touch == touch):
            _fill(drawing, y, fill, scale)
        y += SLOT_H
    return y


def _fill(drawing: Drawing, y: float, fill: Fill, scale: float) -> None:
    x = LEFT + fill.start * scale
    middle, end = LEFT + fill.landed * scale, LEFT + fill.end * scale
    name = f"{fill.touch.buffer}, slot {fill.touch.slot}"
    drawing.rect(x, y + 3, max(middle - x, 1), SLOT_H - 6, "wait", "edge", tip=f"{name}: in flight")
    drawing.rect(middle, y + 3, max(end - middle, 1), SLOT_H - 6, "load", "edge", tip=f"{name}: held for its readers")


def _legend(drawing: Drawing, y: float) -> None:
    x = LEFT
    for fill, said in (("wait", "in flight, or a wait"), ("load", "held until its last reader"), ("bad", "stall")):
        drawing.rect(x, y, 12, 12, fill, "edge")
        drawing.text(x + 17, y + 10, said, "faint", 10)
        x += 30 + width_of(said, 10)
    drawing.line(x + 4, y - 1, x + 4, y + 13, "blue")
    drawing.text(x + 11, y + 10, "block barrier", "faint", 10)


def _lines(found: Timeline) -> list[str]:
    """Say what happens, line by line."""
    marks = [(at, f"{'':18}barrier {reason}") for at, _, reason in found.barriers]
    marks += [(at, f"{'':18}… {said}") for at, said in found.gaps]
    marks += [(box.start, _said(box)) for box in found.boxes]
    marks.sort(key=lambda mark: mark[0])
    lines = [f"{at:>7.0f} {said}" for at, said in marks]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], f"        … {len(lines) - MOST_LINES + 1} more lines"]
    return lines


def _said(box: Box) -> str:
    chunk = "    " if box.chunk is None else f"{box.chunk:>4}"
    role = f"{box.role}: " if box.role else ""
    stall = f" (stalls {box.stall:.0f})" if box.stall else ""
    return f"{chunk} {ROWS[box.row]:<12} {role}{box.label}{stall}"
