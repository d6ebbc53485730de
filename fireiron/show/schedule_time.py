"""Times of a block's events: in steps of the simulator, or in clocks of a model of issue and latencies.

In the simulator an asynchronous copy lands as late as is legal, when its group or phase is awaited, which shows what a
kernel relies on. In the model it lands a latency after its issue, which shows what overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from fireiron.simulate.events import Event, Touch

Policy = Literal["simulated", "modelled"]
Loop: TypeAlias = tuple[int | None, str]  # a persistent block's tile, and a loop variable
Row = Literal["tile", "load", "put", "compute", "store", "wait"]


@attrs.frozen
class Box:
    """Hold the time of one event, or of several equal events in a row.

    Args:
        role: name of the role.
        row: kind of work.
        start, end: times of begin and end.
        label: the work in words.
        chunk: iteration of the outer loop, None outside it.
        stall: time that the role waited.
    """

    role: str
    row: Row
    start: float
    end: float
    label: str
    chunk: int | None
    stall: float = 0.0


@attrs.frozen
class Fill:
    """Hold the times of one filling of a ring slot or a register tensor.

    Args:
        touch: the slot or tensor.
        start: time at which the first copy to it was issued.
        landed: time at which its data was complete.
        end: time of its last read.
    """

    touch: Touch
    start: float
    landed: float
    end: float


@attrs.frozen
class Mark:
    """Hold a barrier, or a gap of left-out iterations.

    Args:
        at: the time.
        role: name of the role; "" for the whole block.
        what: the barrier, or the left-out iterations, in words.
        until: time at which the left-out iterations end; equal to `at` for a barrier.
    """

    at: float
    role: str
    what: str
    until: float = 0.0


@attrs.frozen
class Timeline:
    """Hold the contents of a timeline.

    Args:
        policy: `simulated` or `modelled`.
        boxes: the work of the roles.
        fills: fillings of slots and register tensors.
        barriers: barriers, at the times when all threads have arrived.
        gaps: left-out iterations.
        total: time of the last event's end.
        periods: by loop with a gap, the time of one iteration after its pipeline is full.
    """

    policy: Policy
    boxes: tuple[Box, ...]
    fills: tuple[Fill, ...]
    barriers: tuple[Mark, ...]
    gaps: tuple[Mark, ...]
    total: float
    periods: Mapping[Loop, float] = attrs.field(factory=dict[Loop, float])


def row_of(event: Event) -> Row:
    """Return an instruction's kind of work, by the memories that it accesses."""
    if any(t.memory == "GL" for t in event.writes):
        return "store"
    if any(t.memory == "GL" for t in event.reads):
        return "load"
    return "put" if any(t.memory == "SH" for t in event.writes) else "compute"


def label_of(event: Event, row: Row) -> str:
    """Write an instruction's label: its name, or the data that it moves."""
    if row == "compute" or event.what == "compute":
        return event.what if any(t.memory != "SH" for t in event.reads) else ""
    return " ".join(dict.fromkeys(t.buffer for t in (event.reads if row == "store" else event.writes)))


def joined(first: str, second: str) -> str:
    """Join two labels, without repeating equal ones."""
    return " ".join(dict.fromkeys((*first.split(), *second.split())))
