"""Timelines: what a block's roles do one after the other, what is in flight meanwhile, and where they wait."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import pairwise

from fireiron.algebra.machine import MACHINES
from fireiron.atoms.flights import flying
from fireiron.base.errors import UsageError
from fireiron.base.text import count
from fireiron.kernel.ir.statements import Turn, walk
from fireiron.show.clock import time_of
from fireiron.show.lowering import Lowers, lowered_of
from fireiron.show.page import WIDTH as PAGE
from fireiron.show.picture import Picture, wrapped
from fireiron.show.schedule_time import Box, Fill, Mark, Policy, Row, Timeline
from fireiron.show.svg import Drawing, width_of
from fireiron.simulate.events import Touch, Trace
from fireiron.simulate.trace import trace

WIDTH = 760.0
LEFT = 132.0
ROW_H = 26.0
SLOT_H = 18.0
MOST_LINES = 40
THIN = 4.0  # a box that is narrower has no edge, which would be all of it

ROWS: Mapping[Row, str] = {
    "tile": "tile",
    "load": "start loads",
    "put": "fill shared",
    "compute": "compute",
    "store": "store",
    "wait": "wait",
}
_FILLS: Mapping[Row, str] = {
    "tile": "empty",
    "load": "load",
    "put": "put",
    "compute": "math",
    "store": "store",
    "wait": "wait",
}
_SAID: Mapping[Policy, str] = {
    "simulated": "order of a simulation: a box is one step; what is asynchronous lands when it is awaited",
    "modelled": "modelled, not measured: issue clocks of the instructions, one block alone on an SM, warps in step,\n"
    f"{MACHINES[90].latency} clocks to global memory",
}


def timeline(
    schedule: Lowers,
    policy: Policy = "simulated",
    block: int = 0,
    chunks: int = 6,
    tiles: int | None = None,
    **sizes: int,
) -> Picture:
    """Draw what one block does over time.

    Above, a row for each kind of work of each role: loads that are started, shared memory that is filled, products,
    stores, waits; of a persistent block also one for its tiles. Vertical lines are barriers. Below, a row for each ring
    slot: amber while its data is in flight, green from its arrival to its last reader. Numbers are iterations of the
    outer loop.

    Args:
        schedule: a finished one; one block of it runs on the simulator.
        policy: `simulated` counts events; `modelled` gives them issue clocks and latencies, so that overlap shows.
        block: which block.
        chunks: iterations of the outer loop that are drawn, the first ones and the last.
        tiles: how many tiles a persistent block takes; None takes 2, or 4 where units take them in turn.
        sizes: values of symbols.

    Raises:
        UsageError: `unfinished`, `unknown-policy`.
    """
    kernel = lowered_of(schedule)
    if kernel is None:
        raise UsageError("unfinished", "timeline needs a finished schedule", fix="close the chain by .done()")
    if policy not in _SAID:
        raise UsageError("unknown-policy", f"no policy is called {policy!r}", fix='use "simulated" or "modelled"')
    if tiles is None:
        tiles = 4 if any(isinstance(s, Turn) for s in walk(kernel.body)) else 2
    return drawn(trace(kernel, sizes, block, chunks, tiles), policy)


def drawn(traced: Trace, policy: Policy) -> Picture:
    """Draw a trace."""
    found = time_of(traced, policy)
    drawing = Drawing(f"timeline of one block, {policy}")
    what = f"one block of {count(traced.threads, 'thread')}"
    unit = "steps" if policy == "simulated" else "clocks, modelled"
    drawing.text(0, 12, f"{what}: {found.total:.0f} {unit}", bold=True)
    y = 16.0
    said = _SAID[policy]
    if policy == "modelled" and any(flying(event.group) == "products" for event in traced.events):
        said += ", one wgmma after the other on the tensor cores"
    for line in said.splitlines():
        y += 14
        drawing.text(0, y, line, "faint", 11)
    y += 16
    scale = WIDTH / max(found.total, 1.0)
    top = y
    for role in dict.fromkeys(box.role for box in found.boxes):
        start, y = y, _role(drawing, y, role, found, scale)
        if role:
            _marks(drawing, found, role, start + 18, y, scale)
    y += 8
    drawing.text(0, y + 9, "in flight, held", "faint", 10)
    y += 14
    y = _slots(drawing, y, found, traced, scale)
    _marks(drawing, found, "", top, y, scale)
    gaps = sorted({gap.what for gap in found.gaps if gap.role})
    for i, line in enumerate(gaps):
        each = ", in each tile" if any(box.row == "tile" for box in found.boxes) else ""
        drawing.text(LEFT, y + 12 + 12 * i, f"dashed: {line}{each}", "note", 9)
    _legend(drawing, y + 30 + 12 * max(0, len(gaps) - 1), found)
    columns = f"{'step' if policy == 'simulated' else 'clock':>7}    k what"
    return Picture(drawing.title, drawing, wrapped(f"{what}; {' '.join(said.splitlines())}", columns, *_lines(found)))


def _marks(drawing: Drawing, found: Timeline, role: str, top: float, bottom: float, scale: float) -> None:
    """Draw the barriers and the gaps of a role over its rows; those of no role over all."""
    for mark in (mark for mark in found.barriers if mark.role == role):
        x = LEFT + mark.at * scale
        drawing.line(x, top, x, bottom, "blue" if _of_all(mark) else "edge")
    wide = _gap(found, scale)
    for mark in (mark for mark in found.gaps if mark.role == role):
        x = LEFT + mark.at * scale
        if not role:
            drawing.rect(x, top, wide, bottom - top, "ground")
        drawing.line(x + wide / 2, top, x + wide / 2, bottom, "orange", dashed=True)
        if not role:
            drawing.text(x, bottom + 12, mark.what, "note", 9, "middle")


def _of_all(mark: Mark) -> bool:
    """Say whether a barrier is one of all threads, rather than of a role's."""
    return mark.what.startswith(("Block", "Cluster"))


def _gap(found: Timeline, scale: float) -> float:
    """Give the width of what stands for iterations that are left out."""
    return max(scale if found.policy == "simulated" else 240 * scale, 6)


def _lines_across(found: Timeline, role: str, scale: float) -> list[float]:
    """List where lines cross the rows of a role."""
    half = _gap(found, scale) / 2
    across = [LEFT + mark.at * scale for mark in found.barriers if mark.role in ("", role)]
    return across + [LEFT + mark.at * scale + half for mark in found.gaps if mark.role in ("", role)]


def _role(drawing: Drawing, y: float, role: str, found: Timeline, scale: float) -> float:
    mine = [box for box in found.boxes if box.role == role]
    computes = any(box.row == "compute" for box in mine)
    across = _lines_across(found, role, scale)
    if role:
        drawing.text(0, y + 12, role, "link", bold=True)
        y += 18
    for row, said in ROWS.items():
        if all(box.row != row for box in mine):
            continue
        drawing.text(LEFT - 8, y + 17, said, "ink", 11, "end")
        drawing.rect(LEFT, y + 3, WIDTH, ROW_H - 6, "panel")
        for box in (box for box in mine if box.row == row):
            _box(drawing, y, box, scale, computes, across)
        y += ROW_H
    return y


def _box(drawing: Drawing, y: float, box: Box, scale: float, computes: bool, across: list[float]) -> None:
    x, wide = LEFT + box.start * scale, max((box.end - box.start) * scale, 1.5)
    late = f", {box.stall:.0f} clocks" if box.stall else ""
    chunk = "" if box.chunk is None else f", iteration {box.chunk}"
    fill = "bad" if computes and _stalls(box) else _FILLS[box.row]
    edge = "edge" if wide >= THIN else ""
    drawing.rect(x, y + 3, wide, ROW_H - 6, fill, edge, 2 if edge else 0, tip=f"{box.label}{chunk}{late}")
    number = box.label.split()[-1] if box.row == "tile" else "" if box.chunk is None else str(box.chunk)
    full = box.label if box.row == "tile" else f"{number} {box.label}".strip()
    edges = [x, *sorted(line for line in across if x < line < x + wide), x + wide]
    left, right = max(pairwise(edges), key=lambda free: free[1] - free[0])
    for text in (full, number):
        if text and width_of(text, 9) <= right - left - 3:
            drawing.text((left + right) / 2, y + 16, text, size=9, anchor="middle")
            return


def _stalls(box: Box) -> bool:
    return box.row == "wait" and box.stall >= 1


def _slots(drawing: Drawing, y: float, found: Timeline, traced: Trace, scale: float) -> float:
    """Draw a row for each slot; the loads of one role to the same slot stand below each other."""
    first: dict[str, float] = {}
    for fill in found.fills:
        first[fill.touch.buffer] = min(fill.start, first.get(fill.touch.buffer, fill.start))
    touches = sorted(
        {fill.touch for fill in found.fills}, key=lambda t: (t.memory, first[t.buffer], t.buffer, t.owner, t.slot)
    )
    for touch in touches:
        name = _place(touch) if traced.slots.get(touch.buffer, 1) > 1 else f"{touch.buffer} {touch.owner}".rstrip()
        drawing.text(LEFT - 8, y + 13, name, "memory", 11, "end")
        drawing.rect(LEFT, y + 3, WIDTH, SLOT_H - 6, "panel")
        for fill in (fill for fill in found.fills if fill.touch == touch):
            _fill(drawing, y, fill, scale)
        y += SLOT_H
    return y


def _place(touch: Touch) -> str:
    return f"{touch.buffer}[{touch.slot}] {touch.owner}".rstrip()


def _fill(drawing: Drawing, y: float, fill: Fill, scale: float) -> None:
    x = LEFT + fill.start * scale
    middle, end = LEFT + fill.landed * scale, LEFT + fill.end * scale
    name = _place(fill.touch)
    drawing.rect(x, y + 3, max(middle - x, 1), SLOT_H - 6, "wait", "edge", tip=f"{name}: in flight")
    drawing.rect(middle, y + 3, max(end - middle, 1), SLOT_H - 6, "load", "edge", tip=f"{name}: held for its readers")


def _legend(drawing: Drawing, y: float, found: Timeline) -> None:
    """Explain the colours and lines that the drawing has."""
    x = LEFT
    computing = {box.role for box in found.boxes if box.row == "compute"}
    for fill, said, used in (
        ("wait", "in flight, or a wait", True),
        ("load", "held until its last reader", bool(found.fills)),
        ("bad", "a role that computes waits", any(_stalls(b) and b.role in computing for b in found.boxes)),
    ):
        if used:
            drawing.rect(x, y, 12, 12, fill, "edge")
            drawing.text(x + 17, y + 10, said, "faint", 10)
            x += 30 + width_of(said, 10)
    for stroke, said, all_ in (("blue", "barrier of the block", True), ("edge", "barrier of a role", False)):
        if any(_of_all(mark) == all_ for mark in found.barriers):
            drawing.line(x + 4, y - 1, x + 4, y + 13, stroke)
            drawing.text(x + 11, y + 10, said, "faint", 10)
            x += 26 + width_of(said, 10)


def _lines(found: Timeline) -> list[str]:
    """Say what happens, line by line."""
    marks = [(mark.at, f"{'':18}{_role_of(mark)}barrier {mark.what}") for mark in found.barriers]
    marks += [(mark.at, f"{'':18}{_role_of(mark)}… {mark.what}") for mark in found.gaps]
    marks += [(box.start, _said(box)) for box in found.boxes]
    marks.sort(key=lambda mark: mark[0])
    lines = [f"{at:>7.0f} {said}" for at, said in marks]
    lines = [part for line in lines for part in textwrap.wrap(line, PAGE, subsequent_indent=" " * 29)]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], f"        … {len(lines) - MOST_LINES + 1} more lines"]
    return lines


def _role_of(item: Box | Mark) -> str:
    return f"{item.role}: " if item.role else ""


def _said(box: Box) -> str:
    chunk = "    " if box.chunk is None else f"{box.chunk:>4}"
    stall = f" (stalls {box.stall:.0f})" if box.stall >= 1 else ""
    return f"{chunk} {ROWS[box.row]:<12} {_role_of(box)}{box.label}{stall}"
