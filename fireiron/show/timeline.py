"""Timelines: the work of a block's roles over time, data in flight, and waits."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from itertools import pairwise

from fireiron.algebra.machine import MACHINES, Machine
from fireiron.atoms.flights import flying
from fireiron.base.errors import UsageError
from fireiron.base.text import count
from fireiron.kernel.ir.statements import Turn, walk
from fireiron.show.axis import Axis, axis_of
from fireiron.show.clock import time_of
from fireiron.show.lowering import lowered_of
from fireiron.show.page import WIDTH as PAGE
from fireiron.show.picture import Picture, wrapped
from fireiron.show.schedule_time import Box, Fill, Mark, Policy, Row, Timeline
from fireiron.show.svg import Drawing, width_of
from fireiron.show.whole import Estimated, Measured, Whole, all_iterations, traced_once, whole_of
from fireiron.simulate.events import Touch, Trace

WIDTH = 760.0
LEFT = 132.0
ROW_H = 26.0
SLOT_H = 18.0
FOLDED = 128  # characters of a line above the drawing
MOST_LINES = 40
ALIKE = 1.05  # times of the two models that differ by less are not compared
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
    "modelled": "issue clocks of the instructions, the block alone on an SM, warps in step, {latency} clocks to global "
    "memory",
}


def timeline(
    schedule: Estimated,
    policy: Policy = "simulated",
    block: int = 0,
    chunks: int = 6,
    tiles: int | None = None,
    measured: Measured | float | None = None,
    on: str | int | None = None,
    **sizes: int,
) -> Picture:
    """Draw the work of one block over time; the title gives the time of the whole kernel.

    The upper rows show the work of each role by kind: issued loads, filled shared memory, products, stores, waits, and
    the tiles of a persistent block. Vertical lines are barriers. The lower rows show each ring slot: its data is first
    in flight, then held until its last reader. Numbers are iterations of the outer loop. Left-out iterations appear as
    a break of the time axis, so that times are those of all iterations.

    Args:
        schedule: a finished schedule; one block of it runs on the simulator.
        policy: `simulated` counts steps; `modelled` uses clocks of issue and latencies, which shows overlap.
        block: number of the block.
        chunks: number of iterations of the outer loop that are drawn: the first ones and the last.
        tiles: number of tiles of a persistent block; None for 2, or 4 where units take tiles in turn.
        measured: a measured time of this kernel, for the title: a Timing, the times of a bench result, or microseconds.
        on: the architecture whose GPU is modelled; where None, the schedule's or the GPU's.
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
    whole = whole_of(schedule, on, measured, sizes)
    settled = all_iterations(kernel, policy, whole.arch, sizes, block, tiles)
    return drawn(traced_once(kernel, tuple(sizes.items()), block, chunks, tiles, whole.arch), policy, whole, settled)


def drawn(traced: Trace, policy: Policy, whole: Whole | None = None, settled: Timeline | None = None) -> Picture:
    """Draw a trace.

    Args:
        traced: the trace.
        policy: `simulated` or `modelled`.
        whole: time of the kernel, for the title.
        settled: timeline of all iterations, with the time of a left-out iteration.
    """
    machine = whole.machine if whole is not None else MACHINES[90]
    found = time_of(traced, policy, machine, None if settled is None else settled.periods)
    drawing = Drawing(f"timeline of one block, {policy}")
    unit = "steps" if policy == "simulated" else "clocks"
    part = {0: "", 1: ", its first tile"}.get(traced.tiles, f", its first {traced.tiles} tiles")
    waves = math.inf if whole is None or whole.estimate is None else whole.estimate.waves
    if traced.tiles > waves:
        part = f", as if it took {traced.tiles} tiles, not {waves}"
    total = (found if settled is None else settled).total
    what = f"drawn: one block of {count(traced.threads, 'thread')}{part}: {total:,.0f} {unit}"
    head = [] if whole is None else [whole.title]
    said = [] if whole is None else [whole.detail]
    said += [f"{what}{' by the model' if policy == 'modelled' else ''}", _assumed(traced, policy, machine)]
    if whole is not None and whole.estimate is not None and policy == "modelled" and traced.tiles <= waves:
        ratio = total / whole.clocks(whole.estimate.time_us)
        if ratio > ALIKE:
            said.append(f"the drawing adds up waits that estimate() takes to overlap, {ratio:.2g} x its time")
    y = -2.0
    for line in head:
        y += 14
        drawing.text(0, y, line, bold=True)
    for line in (part for each in said for part in textwrap.wrap(each, FOLDED)):
        y += 14
        drawing.text(0, y, line, "faint", 11)
    y += 26
    axis = axis_of(found, LEFT, WIDTH)
    ruler = y
    y += 6
    top = y
    for role in dict.fromkeys(box.role for box in found.boxes):
        start, y = y, _role(drawing, y, role, found, axis)
        if role:
            _marks(drawing, found, role, start + 18, y, axis)
    y += 8
    if found.fills:
        drawing.text(0, y + 9, "shared memory and registers", "faint", 10)
        y += 14
        y = _slots(drawing, y, found, traced, axis)
    _marks(drawing, found, "", top, y, axis)
    axis.draw(drawing, ruler, unit, y)
    left_out = sorted({gap.what for gap in found.gaps})
    each = ", in each tile" if any(box.row == "tile" for box in found.boxes) else ""
    for line in left_out:
        y += 12
        drawing.text(LEFT, y, f"break: {line}{each}", "note", 9)
    _legend(drawing, y + 14, found)
    columns = f"{'step' if policy == 'simulated' else 'clock':>9}    k what"
    return Picture(drawing.title, drawing, wrapped(*head, *said, columns, *_lines(found)))


def _assumed(traced: Trace, policy: Policy, machine: Machine) -> str:
    """Describe how the times of the drawing were computed."""
    said = _SAID[policy].format(latency=machine.latency)
    if policy == "modelled" and any(flying(event.group) == "products" for event in traced.events):
        said += ", one wgmma after the other on the tensor cores"
    return said


def _marks(drawing: Drawing, found: Timeline, role: str, top: float, bottom: float, axis: Axis) -> None:
    """Draw a role's barriers and gaps over its rows, and those of the whole block over all rows."""
    for mark in (mark for mark in found.barriers if mark.role == role):
        x = axis.x(mark.at)
        drawing.line(x, top, x, bottom, "blue" if _of_all(mark) else "edge")
    for mark in (mark for mark in found.gaps if mark.role == role and mark.until > mark.at):
        for start, end in _shown(mark, axis):
            drawing.line(axis.x(start), bottom - 1, axis.x(end), bottom - 1, "orange", dashed=True)


def _shown(gap: Mark, axis: Axis) -> list[tuple[float, float]]:
    """List the parts of left-out iterations outside the axis's breaks."""
    edges = [gap.at, *(moment for each in axis.breaks for moment in each if gap.at <= moment <= gap.until), gap.until]
    return [(start, end) for start, end in pairwise(sorted(edges)) if end > start and (start, end) not in axis.breaks]


def _of_all(mark: Mark) -> bool:
    """Say whether a barrier is for all threads of the block, not only for a role's."""
    return mark.what.startswith(("Block", "Cluster"))


def _lines_across(found: Timeline, role: str, axis: Axis) -> list[float]:
    """List the positions at which vertical lines cross a role's rows."""
    across = [axis.x(mark.at) for mark in found.barriers if mark.role in ("", role)]
    return across + [axis.x(moment) for each in axis.breaks for moment in each]


def _role(drawing: Drawing, y: float, role: str, found: Timeline, axis: Axis) -> float:
    mine = [box for box in found.boxes if box.role == role]
    computes = any(box.row == "compute" for box in mine)
    across = _lines_across(found, role, axis)
    if role:
        drawing.text(0, y + 12, role, "link", bold=True)
        y += 18
    for row, said in ROWS.items():
        if all(box.row != row for box in mine):
            continue
        drawing.text(LEFT - 8, y + 17, said, "ink", 11, "end")
        drawing.rect(LEFT, y + 3, WIDTH, ROW_H - 6, "panel")
        for box in (box for box in mine if box.row == row):
            _box(drawing, y, box, axis, computes, across, found.policy)
        y += ROW_H
    return y


def _box(drawing: Drawing, y: float, box: Box, axis: Axis, computes: bool, across: list[float], policy: Policy) -> None:
    x = axis.x(box.start)
    wide = max(axis.x(box.end) - x, 1.5)
    unit = "steps" if policy == "simulated" else "clocks"
    chunk = "" if box.chunk is None else f", iteration {box.chunk}"
    tip = f"{box.label or ROWS[box.row]}{chunk}: {box.start:,.0f} to {box.end:,.0f} {unit}"
    fill = "bad" if computes and _stalls(box) else _FILLS[box.row]
    edge = "edge" if wide >= THIN else ""
    drawing.rect(x, y + 3, wide, ROW_H - 6, fill, edge, 2 if edge else 0, tip=tip)
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


def _slots(drawing: Drawing, y: float, found: Timeline, traced: Trace, axis: Axis) -> float:
    """Draw a row for each slot, with the slots of a role's loads below each other."""
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
            _fill(drawing, y, fill, axis)
        y += SLOT_H
    return y


def _place(touch: Touch) -> str:
    return f"{touch.buffer}[{touch.slot}] {touch.owner}".rstrip()


def _fill(drawing: Drawing, y: float, fill: Fill, axis: Axis) -> None:
    x, middle, end = (axis.x(t) for t in (fill.start, fill.landed, fill.end))
    name = _place(fill.touch)
    flight = f"{name}: in flight, {fill.start:,.0f} to {fill.landed:,.0f}"
    held = f"{name}: held for its readers, {fill.landed:,.0f} to {fill.end:,.0f}"
    drawing.rect(x, y + 3, max(middle - x, 1), SLOT_H - 6, "flight", "edge", tip=flight)
    drawing.rect(middle, y + 3, max(end - middle, 1), SLOT_H - 6, "held", "edge", tip=held)


def _legend(drawing: Drawing, y: float, found: Timeline) -> None:
    """Draw a legend of the colours and lines in the drawing."""
    x = LEFT
    computing = {box.role for box in found.boxes if box.row == "compute"}
    waits = [box for box in found.boxes if box.row == "wait"]
    alarms = [box for box in waits if _stalls(box) and box.role in computing]
    for fill, said, used in (
        ("flight", "data in flight", bool(found.fills)),
        ("held", "held until its last reader", bool(found.fills)),
        ("wait", "a wait", len(waits) > len(alarms)),
        ("bad", "a role that computes waits", bool(alarms)),
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
    """Describe the events in lines of text."""
    marks = [(mark.at, f"{'':18}{_role_of(mark)}barrier {mark.what}") for mark in found.barriers]
    marks += [(mark.at, f"{'':18}{_role_of(mark)}… {mark.what}") for mark in found.gaps]
    marks += [(box.start, _said(box)) for box in found.boxes]
    marks.sort(key=lambda mark: mark[0])
    lines = [f"{at:>9,.0f} {said}" for at, said in marks]
    lines = [part for line in lines for part in textwrap.wrap(line, PAGE, subsequent_indent=" " * 31)]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], f"        … {len(lines) - MOST_LINES + 1} more lines"]
    return lines


def _role_of(item: Box | Mark) -> str:
    return f"{item.role}: " if item.role else ""


def _said(box: Box) -> str:
    chunk = "    " if box.chunk is None else f"{box.chunk:>4}"
    stall = f" (stalls {box.stall:.0f})" if box.stall >= 1 else ""
    return f"{chunk} {ROWS[box.row]:<12} {_role_of(box)}{box.label}{stall}"
