"""When a block's events happen: in the simulator's order, or by issue clocks and latencies, which is a model.

The simulator lets an asynchronous copy land as late as is legal, when its group is awaited: that shows what a kernel
relies on. The model lets it land a latency after it was issued: that shows what overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

from fireiron.estimate.model import GL_LATENCY, ROUND_CLOCKS
from fireiron.simulate.trace import Event, Touch, Trace

Policy = Literal["simulated", "modelled"]
Row = Literal["load", "put", "compute", "store", "wait"]

PARTITIONS = 4  # sub-partitions of an SM, each issuing for its own warps
WARP = 32


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
class Timeline:
    """Hold everything that a timeline shows.

    Args:
        policy: where the times come from.
        boxes: what the roles do.
        fills: what is in flight, and what is held.
        barriers: (time, role, reason).
        gaps: (time, words) where iterations were left out.
        total: when the last event ends.
    """

    policy: Policy
    boxes: tuple[Box, ...]
    fills: tuple[Fill, ...]
    barriers: tuple[tuple[float, str, str], ...]
    gaps: tuple[tuple[float, str], ...]
    total: float


@attrs.define
class _Open:
    start: float
    landed: float | None
    end: float


@attrs.define
class _Clock:
    """Walk events in order, one time a role."""

    trace: Trace
    policy: Policy
    now: dict[str, float] = attrs.field(factory=dict[str, float])
    boxes: list[Box] = attrs.field(factory=list[Box])
    fills: list[Fill] = attrs.field(factory=list[Fill])
    open: dict[Touch, _Open] = attrs.field(factory=dict[Touch, _Open])
    flying: list[tuple[Touch, float]] = attrs.field(factory=list[tuple[Touch, float]])
    groups: list[list[tuple[Touch, float]]] = attrs.field(factory=list[list[tuple[Touch, float]]])
    barriers: list[tuple[float, str, str]] = attrs.field(factory=list[tuple[float, str, str]])
    gaps: list[tuple[float, str]] = attrs.field(factory=list[tuple[float, str]])
    chunks: bool = False  # whether the main loop has begun

    def event(self, event: Event) -> None:
        """Advance by one event."""
        at = self.time(event.role)
        match event.kind:
            case "commit":
                self.groups.append(self.flying)
                self.flying = []
            case "wait":
                self.wait(event, at)
            case "sync":
                self.sync(event, at)
            case "gap":
                self.gaps.append((max(self.now.values(), default=0.0), event.what))
                step = 1.0 if self.policy == "simulated" else 4.0 * ROUND_CLOCKS
                # Whole turns of every ring are left out: what is in flight before stands for what is after.
                self.now = {role: time + step for role, time in self.now.items()}
            case "run":
                self.run(event, at)

    def sync(self, event: Event, at: float) -> None:
        """Pass a barrier; what a thread copied itself has to be there before it arrives."""
        if self.policy == "simulated":
            self.barriers.append((at, event.role, event.what))
            return
        pending = {
            touch.buffer: found.landed
            for touch, found in self.open.items()
            if touch.memory == "SH" and found.landed is not None and found.landed > at
        }
        ready = max(pending.values(), default=at)
        if ready > at:
            label = f"wait for {', '.join(pending)}"
            self.boxes.append(Box(event.role, "wait", at, ready, label, self.chunk(event), ready - at))
        self.barriers.append((ready, event.role, event.what))
        self.now[event.role] = ready + ROUND_CLOCKS

    def chunk(self, event: Event) -> int | None:
        """Give the outer loop's iteration."""
        return next((n for name, n in event.loops if name in self.trace.outer), None)

    def time(self, role: str) -> float:
        """Give a role's time; in the simulator's order all roles share one."""
        return self.now.get(role, 0.0) if self.policy == "modelled" else max(self.now.values(), default=0.0)

    def wait(self, event: Event, at: float) -> None:
        """Let groups land, the oldest first."""
        ready = at
        while len(self.groups) > event.pending:
            for touch, lands in self.groups.pop(0):
                lands = max(lands, at) if self.policy == "simulated" else lands
                ready = max(ready, lands)
                if touch in self.open:
                    self.open[touch].landed = lands
                    self.open[touch].end = max(self.open[touch].end, lands)
        stall = ready - at
        shown = ready if self.policy == "modelled" else at + 0.35
        left = f", {event.pending} stay in flight" if event.pending else ""
        label = f"wait {event.what}{left}"
        self.boxes.append(Box(event.role, "wait", at, shown, label, self.chunk(event), stall))
        self.now[event.role] = shown

    def run(self, event: Event, at: float) -> None:
        """Execute an instruction as often as its nest does."""
        row = row_of(event)
        self.chunks |= self.chunk(event) is not None
        if row == "compute" and self.chunk(event) is None and (self.chunks or event.what == "compute"):
            row = "store"  # the epilogue's sums and ops, element by element between its stores
        start = at
        if self.policy == "modelled":
            for touch in event.reads:
                landed = self.open[touch].landed if touch in self.open else None
                if landed is not None and landed > start:  # a register that a load still has to fill
                    start = landed
            if start > at:
                label = f"wait for {', '.join(t.buffer for t in event.reads if t in self.open)}"
                self.boxes.append(Box(event.role, "wait", at, start, label, self.chunk(event), start - at))
            warps = -(-self.trace.threads // WARP)
            long = event.count * max(event.clocks, 1.0) * warps / PARTITIONS
        else:
            long = 1.0
        label = _label(event, row)
        last = next((b for b in reversed(self.boxes) if b.role == event.role), None)
        joins = last is not None and (last.row, last.chunk, last.end) == (row, self.chunk(event), start)
        if joins and self.policy == "simulated" and last is not None:
            end, merged = last.end, _join(last.label, label)
            self.boxes[self.boxes.index(last)] = attrs.evolve(last, label=merged)
            start = last.start
        elif joins and last is not None:
            end = start + long
            self.boxes[self.boxes.index(last)] = attrs.evolve(last, end=end, label=_join(last.label, label))
        else:
            end = start + long
            self.boxes.append(Box(event.role, row, start, end, label, self.chunk(event)))
        self.now[event.role] = end
        self._follow(event, start, end)

    def _follow(self, event: Event, start: float, end: float) -> None:
        far = any(t.memory == "GL" for t in event.reads)
        for touch in event.reads:
            if touch in self.open:
                self.open[touch].end = max(self.open[touch].end, end)
        for touch in event.writes:
            if touch.memory == "GL" or not (touch.memory == "SH" or far):
                continue
            found = self.open.get(touch)
            if found is not None and found.landed is not None and found.end > found.landed:
                self.close([touch])
                found = None
            # Without a wait to mark it, a load to registers lands where its first reader needs it.
            lands = end + (GL_LATENCY if far and self.policy == "modelled" else 0.0)
            if found is None:
                found = self.open[touch] = _Open(start, None if event.flies else lands, end)
            elif not event.flies:
                found.landed = lands
            if event.flies:
                self.flying.append((touch, lands))

    def close(self, touches: Iterable[Touch]) -> None:
        """End the fillings of some slots."""
        for touch in list(touches):
            found = self.open.pop(touch)
            landed = found.end if found.landed is None else found.landed
            self.fills.append(Fill(touch, found.start, min(landed, found.end), found.end))


def time_of(trace: Trace, policy: Policy) -> Timeline:
    """Place a trace's events in time.

    Args:
        trace: of one block.
        policy: `simulated` counts events in order; `modelled` counts clocks of one block alone on its SM, all warps of
            a role in step.
    """
    clock = _Clock(trace, policy)
    for event in trace.events:
        if event.kind != "run" or event.reads:
            clock.event(event)
    clock.close(clock.open)
    total = max(clock.now.values(), default=0.0)
    boxes = tuple(b for b in clock.boxes if b.end > b.start)
    return Timeline(policy, boxes, tuple(clock.fills), tuple(clock.barriers), tuple(clock.gaps), total)


def row_of(event: Event) -> Row:
    """Say what kind of thing an instruction does, by the memories it touches."""
    if any(t.memory == "GL" for t in event.writes):
        return "store"
    if any(t.memory == "GL" for t in event.reads):
        return "load"
    return "put" if any(t.memory == "SH" for t in event.writes) else "compute"


def _label(event: Event, row: Row) -> str:
    if row == "compute" or event.what == "compute":
        return event.what if any(t.memory != "SH" for t in event.reads) else ""
    return " ".join(dict.fromkeys(t.buffer for t in (event.reads if row == "store" else event.writes)))


def _join(first: str, second: str) -> str:
    """Say both once."""
    return " ".join(dict.fromkeys((*first.split(), *second.split())))
