"""When a block's events happen: in the simulator's order, or by issue clocks and latencies, which is a model.

The simulator lets an asynchronous copy land as late as is legal, when its group or its phase is awaited: that shows
what a kernel relies on. The model lets it land a latency after it was issued: that shows what overlaps.
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
    """Place one or more equal events in time.

    Args:
        role: whose threads.
        row: what kind of thing it is.
        start, end: when.
        label: what is done.
        chunk: the outer loop's iteration, None outside it.
        stall: how long a wait kept the role from going on.
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
    """Follow one filling of a ring slot or a register tensor.

    Args:
        touch: which.
        start: when the first copy to it was issued.
        landed: when its data was there.
        end: when it was read last.
    """

    touch: Touch
    start: float
    landed: float
    end: float


@attrs.frozen
class Mark:
    """Mark a moment of a role.

    Args:
        at: when.
        role: whose, empty where it is the whole block's.
        what: which barrier, or which iterations are left out.
        until: when the iterations that are left out end; `at` for a barrier.
    """

    at: float
    role: str
    what: str
    until: float = 0.0


@attrs.frozen
class Timeline:
    """Hold everything that a timeline shows.

    Args:
        policy: where the times come from.
        boxes: what the roles do.
        fills: what is in flight, and what is held.
        barriers: meetings, when all had come.
        gaps: the time of iterations that were left out.
        total: when the last event ends.
        periods: time of one iteration of each loop with a gap, once its pipeline is full.
    """

    policy: Policy
    boxes: tuple[Box, ...]
    fills: tuple[Fill, ...]
    barriers: tuple[Mark, ...]
    gaps: tuple[Mark, ...]
    total: float
    periods: Mapping[Loop, float] = attrs.field(factory=dict[Loop, float])


def row_of(event: Event) -> Row:
    """Say what kind of thing an instruction does, by the memories it touches."""
    if any(t.memory == "GL" for t in event.writes):
        return "store"
    if any(t.memory == "GL" for t in event.reads):
        return "load"
    return "put" if any(t.memory == "SH" for t in event.writes) else "compute"


def label_of(event: Event, row: Row) -> str:
    """Name what an instruction does in its row: itself, or what it moves."""
    if row == "compute" or event.what == "compute":
        return event.what if any(t.memory != "SH" for t in event.reads) else ""
    return " ".join(dict.fromkeys(t.buffer for t in (event.reads if row == "store" else event.writes)))


def joined(first: str, second: str) -> str:
    """Say both once."""
    return " ".join(dict.fromkeys((*first.split(), *second.split())))
