"""A clock for each role of a block, which gives each event of a trace a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

import attrs

from fireiron.algebra.machine import MACHINES, Machine
from fireiron.atoms.flights import flying
from fireiron.show.schedule_time import Box, Fill, Loop, Mark, Policy, Row, Timeline, joined, label_of, row_of
from fireiron.simulate.events import Event, Point, Touch, Trace

PARTITIONS = 4  # sub-partitions of an SM, each issuing for its own warps
WARP = 32
ISSUE = 8.0  # clocks that a role spends to start an asynchronous instruction
SHORTEST = 0.35  # of a step, for a wait that the order shows and that takes none

Who: TypeAlias = tuple[int, str]  # rank of the block, role


@attrs.define
class _Open:
    role: str
    start: float
    landed: float | None
    end: float


@attrs.frozen
class _Flight:
    """Hold an asynchronous instruction in flight: what it fills, when its sources are read, and when it is complete."""

    touches: tuple[Touch, ...]
    read: float
    lands: float


@attrs.frozen
class _Stamp:
    """Hold the time at which a role did something, and the loops whose gaps came before."""

    at: float
    passed: frozenset[Loop]


@attrs.define(slots=False)  # for cached_property
class Clock:
    """Walk events in order, with a time for each role."""

    trace: Trace
    policy: Policy
    machine: Machine = MACHINES[90]
    now: dict[Who, float] = attrs.field(factory=dict[Who, float])
    boxes: list[Box] = attrs.field(factory=list[Box])
    last: dict[str, int] = attrs.field(factory=dict[str, int])  # place of each role's last box
    fills: list[Fill] = attrs.field(factory=list[Fill])
    open: dict[tuple[int, Touch], _Open] = attrs.field(factory=dict[tuple[int, Touch], _Open])
    flying: dict[tuple[Who, str], list[_Flight]] = attrs.field(factory=dict[tuple[Who, str], list[_Flight]])
    groups: dict[tuple[Who, str], list[list[_Flight]]] = attrs.field(factory=dict[tuple[Who, str], list[list[_Flight]]])
    met: dict[Point, float] = attrs.field(factory=dict[Point, float])
    phases: dict[Point, dict[Who, _Stamp]] = attrs.field(factory=dict[Point, dict["Who", "_Stamp"]])
    arriving: dict[Point, list[_Flight]] = attrs.field(factory=dict[Point, list[_Flight]])
    busy: dict[tuple[int, str], dict[Who, _Stamp]] = attrs.field(factory=dict[tuple[int, str], dict["Who", "_Stamp"]])
    tiles: dict[tuple[str, int], tuple[float, float]] = attrs.field(factory=dict[tuple[str, int], tuple[float, float]])
    barriers: list[Mark] = attrs.field(factory=list[Mark])
    gaps: list[Mark] = attrs.field(factory=list[Mark])
    eaten: set[str] = attrs.field(factory=set[str])  # buffers that the main loop computes from
    sums: set[str] = attrs.field(factory=set[str])  # those that it adds to
    begun: set[str] = attrs.field(factory=set[str])  # roles whose main loop has begun
    periods: Mapping[Loop, float] = attrs.field(factory=dict[Loop, float])  # that gaps take, for each iteration
    found: dict[Loop, dict[str, float]] = attrs.field(factory=dict[Loop, dict[str, float]])  # by role, before the gaps
    passed: dict[Who, frozenset[Loop]] = attrs.field(factory=dict[Who, frozenset[Loop]])  # whose gaps it has behind it
    lengths: dict[Loop, float] = attrs.field(factory=dict[Loop, float])  # of gaps
    # Since when there was no barrier, wait or other iteration of the outer loop: the iteration, and the time.
    straight: dict[Who, tuple[int | None, float]] = attrs.field(factory=dict[Who, tuple[int | None, float]])
    starts: dict[Who, list[tuple[int, float]]] = attrs.field(factory=dict[Who, list[tuple[int, float]]])

    @property
    def modelled(self) -> bool:
        """Say whether time is counted in clocks of the model, instead of steps."""
        return self.policy == "modelled"

    def event(self, event: Event) -> None:
        """Advance by one event."""
        who = (event.rank, event.role)
        at = self.time(who)
        self._iteration(event, who, at)
        match event.kind:
            case "commit":
                key = (who, event.group)
                self.groups.setdefault(key, []).append(self.flying.pop(key, []))
            case "wait":
                self.wait(event, who, at)
            case "meet":
                self._reach(self.met, event, at)
            case "sync":
                self.sync(event, who, at)
            case "arrive":
                for point in event.points:
                    self._stamp(self.phases.setdefault(point, {}), who, at)
            case "await":
                self.phase(event, who, at)
            case "gap":
                self._gap(event, who, at)
            case "run":
                if who not in self.straight or self.straight[who][0] != self.chunk(event):
                    self.straight[who] = self.chunk(event), at
                self.run(event, who, at)
        if event.kind not in ("run", "arrive", "commit"):
            self.straight.pop(who, None)
        if event.tile is not None and event.role and event.rank == self.trace.rank:
            start, _ = self.tiles.get((event.role, event.tile), (at, at))
            self.tiles[event.role, event.tile] = start, self.time(who)

    def time(self, who: Who) -> float:
        """Return a role's time: roles begin at the block's time, and the block goes on when the last role ends."""
        rank, role = who
        if role:
            return self.now.get(who, self.now.get((rank, ""), 0.0))
        return max((time for (other, _), time in self.now.items() if other == rank), default=0.0)

    def _iteration(self, event: Event, who: Who, at: float) -> None:
        """Record the begin of an iteration of the outer loop."""
        chunk, starts = self.chunk(event), self.starts.setdefault(who, [])
        if chunk is None or (starts and starts[-1][0] == chunk):
            return
        if starts and chunk < starts[-1][0]:
            starts.clear()
        starts.append((chunk, at))

    def _gap(self, event: Event, who: Who, at: float) -> None:
        """Advance a role's time over the iterations that are left out.

        Their number is a multiple of each ring's slots: copies in flight before the gap stand for those in flight after
        it.
        """
        loop, starts = (event.tile, event.loop), self.starts.get(who, [])
        ring = min(math.lcm(*self.trace.slots.values()), len(starts))
        if ring and event.rank == self.trace.rank:
            self.found.setdefault(loop, {})[event.role] = (at - starts[-ring][1]) / ring
        passed = self.lengths[loop] = event.count * self.periods.get(loop, 0.0)
        self.passed[who] = self.passed.get(who, frozenset()) | {loop}
        if event.rank == self.trace.rank:
            self.gaps.append(Mark(at, event.role, event.what, at + passed))
        self.now[who] = at + passed
        for (mine, _), flights in self.flying.items():
            if mine == who:
                flights[:] = [_later(flight, at, passed) for flight in flights]
        for (mine, _), queue in self.groups.items():
            if mine == who:
                queue[:] = [[_later(flight, at, passed) for flight in group] for group in queue]
        for (rank, _), filled in self.open.items():
            if (rank, filled.role) == who and filled.landed is not None and filled.landed > at:
                filled.landed += passed

    def _stamp(self, known: dict[Who, _Stamp], who: Who, at: float) -> None:
        """Record that a role did something at a time, unless a later time is recorded."""
        if who not in known or known[who].at < at:
            known[who] = _Stamp(at, self.passed.get(who, frozenset()))

    def _seen(self, stamps: Mapping[Who, _Stamp], who: Who, least: float) -> float:
        """Return the time at which the last of some roles did something, as seen by one role.

        Each role passes the gap of a shared loop at its own time. Where one role is before the gap and another behind
        it, their iterations differ by the number left out, and the time is corrected by as many.
        """
        mine, latest = self.passed.get(who, frozenset()), least
        for other, stamp in stamps.items():
            behind = self.gapped.get(other[1], frozenset()) & (mine - stamp.passed)
            ahead = self.gapped.get(who[1], frozenset()) & (stamp.passed - mine)
            at = stamp.at + sum(self.lengths[x] for x in behind) - sum(self.lengths[x] for x in ahead)
            latest = max(latest, at)
        return latest

    @cached_property
    def gapped(self) -> dict[str, frozenset[Loop]]:
        """List, for each role, the loops with left-out iterations."""
        found: dict[str, frozenset[Loop]] = {}
        for event in self.trace.events:
            if event.kind == "gap":
                found[event.role] = found.get(event.role, frozenset()) | {(event.tile, event.loop)}
        return found

    def _reach(self, known: dict[Point, float], event: Event, at: float) -> None:
        for point in event.points:
            known[point] = max(known.get(point, at), at)

    def chunk(self, event: Event) -> int | None:
        """Return the iteration of the outer loop; None outside it."""
        return next((n for name, n in event.loops if name in self.trace.outer), None)

    def _mark(self, marks: list[Mark], event: Event, at: float) -> None:
        if event.rank == self.trace.rank:
            marks.append(Mark(at, event.role, event.what, at))

    def _box(self, event: Event, row: Row, start: float, end: float, label: str, stall: float = 0.0) -> None:
        """Add a box to the timeline, or extend the role's last box if that shows the same work."""
        if event.rank != self.trace.rank:
            return
        chunk = self.chunk(event)
        place = self.last.get(event.role)
        last = None if place is None else self.boxes[place]
        if row != "wait" and last is not None and (last.row, last.chunk, last.end) == (row, chunk, start):
            assert place is not None
            grown = end if self.modelled else last.end
            self.boxes[place] = attrs.evolve(last, end=grown, label=joined(last.label, label))
            return
        self.last[event.role] = len(self.boxes)
        self.boxes.append(Box(event.role, row, start, end, label, chunk, stall))

    def _joins(self, event: Event, row: Row, start: float) -> bool:
        place = self.last.get(event.role)
        last = None if place is None else self.boxes[place]
        return last is not None and (last.row, last.chunk, last.end) == (row, self.chunk(event), start)

    def sync(self, event: Event, who: Who, at: float) -> None:
        """Pass a barrier; a thread's own copies must have landed before it arrives."""
        ready = max([at, *(self.met.get(point, at) for point in event.points)])
        label = "wait for others"
        if self.modelled:
            pending = {
                touch.buffer: found.landed or 0.0
                for (rank, touch), found in self.open.items()
                if (rank, found.role) == who and touch.memory == "SH" and (found.landed or 0.0) > ready
            }
            label = f"wait for {', '.join(pending)}" if pending else label
            ready = max([ready, *pending.values()])
        if ready > at:
            self._box(event, "wait", at, ready, label, ready - at)
        self._mark(self.barriers, event, ready)
        self.now[who] = ready + (self.machine.round_clocks if self.modelled else 0.0)

    def phase(self, event: Event, who: Who, at: float) -> None:
        """Pass a phase of an mbarrier, after all arrivals and all bytes."""
        ready = max([at, *(self._seen(self.phases.get(point, {}), who, at) for point in event.points)])
        for point in event.points:
            for flight in self.arriving.pop(point, []):
                self._land(event.rank, flight, ready)
        if ready > at:
            self._box(event, "wait", at, ready, f"wait {event.what}", ready - at)
        self.now[who] = ready

    def wait(self, event: Event, who: Who, at: float) -> None:
        """Wait for groups of copies, the oldest first."""
        ready, queue = at, self.groups.get((who, event.group), [])
        if event.reads_only:
            ready = max([at, *(f.read for group in queue[: len(queue) - event.pending] for f in group)])
        else:
            while len(queue) > event.pending:
                for flight in queue.pop(0):
                    ready = max(ready, flight.lands)
                    self._land(event.rank, flight, max(flight.lands, at))
        shown = ready if self.modelled else max(ready, at + SHORTEST)
        left = f", {event.pending} stay in flight" if event.pending else ""
        if shown > at:
            # Products that a role started itself are no stall: the tensor cores are busy.
            self._box(
                event,
                "wait",
                at,
                shown,
                f"wait {event.what}{left}",
                0.0 if flying(event.group) == "products" else ready - at,
            )
        self.now[who] = shown

    def _is_epilogue(self, event: Event) -> bool:
        """Say whether an event belongs to the epilogue, and not to last chunks that stand behind the main loop."""
        last_chunk = any(touch.buffer in self.eaten - self.sums for touch in event.reads)
        return not last_chunk and (event.role in self.begun or event.what == "compute")

    def _land(self, rank: int, flight: _Flight, at: float) -> None:
        lands = flight.lands if self.modelled else at
        for touch in flight.touches:
            found = self.open.get((rank, touch))
            if found is not None:
                found.landed = lands
                found.end = max(found.end, lands)

    def run(self, event: Event, who: Who, at: float) -> None:
        """Execute an instruction as often as the loops around it do."""
        row = row_of(event)
        if self.chunk(event) is not None:
            self.begun.add(event.role)
            if row == "compute":
                read, written = ({touch.buffer for touch in touches} for touches in (event.reads, event.writes))
                self.eaten |= read
                self.sums |= read & written
        elif row == "compute" and self._is_epilogue(event):
            # The epilogue's sums and ops stand element by element between what it does with them.
            place = self.last.get(event.role)
            row = "put" if place is not None and self.boxes[place].row == "put" else "store"
        start = self._sources(event, at) if self.modelled else at
        label = "" if row == "put" and row_of(event) == "compute" else label_of(event, row)
        begin, end, flight = self._takes(event, who, start)
        joins = not self.modelled and self._joins(event, row, start)
        self._box(event, row, begin, end, label)
        if joins:
            end = start
        self.now[who] = end if flight is None or not self.modelled else start + ISSUE * event.count
        if flight is not None and flying(event.group) == "loads":
            for point in event.points:
                self._stamp(self.phases.setdefault(point, {}), who, flight.lands)
            self.arriving.setdefault(event.points[0], []).append(flight)
        elif flight is not None:
            self.flying.setdefault((who, event.group), []).append(flight)
        self._follow(event, begin, end, flight)

    def _sources(self, event: Event, at: float) -> float:
        """Wait for registers that a load has yet to fill; return the time then."""
        start = at
        for touch in event.reads:
            found = self.open.get((event.rank, touch))
            if found is not None and found.landed is not None:
                start = max(start, found.landed)
        if start > at:
            label = f"wait for {', '.join(t.buffer for t in event.reads if (event.rank, t) in self.open)}"
            self._box(event, "wait", at, start, label, start - at)
        return start

    def _takes(self, event: Event, who: Who, start: float) -> tuple[float, float, _Flight | None]:
        """Return when an instruction begins and ends, and its flight if it is asynchronous."""
        filled = tuple(t for t in event.writes if t.memory == "SH")
        if not self.modelled:
            return start, start + 1.0, _Flight(filled, start + 1.0, start + 1.0) if event.flies else None
        far = any(t.memory == "GL" for t in event.reads)
        if flying(event.group) == "products":  # the tensor cores take one product after the other
            cores = self.busy.setdefault((event.rank, "tensor"), {})
            begin = self._seen(cores, who, start)
            end = begin + event.count * event.clocks
            self._stamp(cores, who, end)
            return begin, end, _Flight((), end, end)
        if flying(event.group) in ("loads", "stores"):
            way = self.busy.setdefault((event.rank, event.group), {})
            gone = self._seen(way, who, start) + event.nbytes / self.machine.l2_nbytes_per_clock
            self._stamp(way, who, gone)
            lands = (
                max(gone, start + self.machine.latency)
                if flying(event.group) == "loads"
                else gone + self.machine.latency
            )
            return start, start + ISSUE, _Flight(filled, gone, lands)
        warps = -(-(event.threads or self.trace.threads) // WARP)
        end = start + event.count * max(event.clocks, 1.0) * warps / PARTITIONS
        lands = end + (self.machine.latency if far else 0.0)
        return start, end, _Flight(filled, lands, lands) if event.flies else None

    def _follow(self, event: Event, start: float, end: float, flight: _Flight | None) -> None:
        """Begin fillings of the slots that an instruction writes, and extend those that it reads."""
        far = any(t.memory == "GL" for t in event.reads)
        done = end if flight is None or flying(event.group) != "stores" else flight.read
        for touch in event.reads:
            if (event.rank, touch) in self.open:
                found = self.open[event.rank, touch]
                found.end = max(found.end, done)
        for touch in event.writes:
            if touch.memory == "GL" or not (touch.memory == "SH" or far):
                continue
            key = (event.rank, touch)
            found = self.open.get(key)
            if found is not None and found.landed is not None and found.end > found.landed:
                self.close([key])
                found = None
            # Without a wait to mark it, a load to registers lands where its first reader needs it. Compilers issue the
            # loads of straight code together, before the first use.
            issued = end if touch.memory == "SH" else self.straight[event.rank, event.role][1] + end - start
            lands = max(end, issued + (self.machine.latency if far and self.modelled else 0.0))
            if found is None:
                self.open[key] = _Open(event.role, start, None if event.flies else lands, end)
            elif not event.flies:
                found.landed = lands

    def settled(self) -> dict[Loop, float]:
        """Return, for each loop with a gap, the time of an iteration of the slowest computing role."""
        computing = {box.role for box in self.boxes if box.row == "compute" and box.chunk is not None}
        return {
            loop: max(time for role, time in by.items() if role in computing or not computing & by.keys())
            for loop, by in self.found.items()
        }

    def close(self, keys: Iterable[tuple[int, Touch]]) -> None:
        """End fillings of some slots."""
        for key in list(keys):
            found = self.open.pop(key)
            landed = found.end if found.landed is None else found.landed
            if key[0] == self.trace.rank:
                self.fills.append(Fill(key[1], found.start, min(landed, found.end), found.end))


def _later(flight: _Flight, at: float, passed: float) -> _Flight:
    """Shift the end of a flight by `passed`, if it is in flight at a time."""
    read, lands = (t + passed if t > at else t for t in (flight.read, flight.lands))
    return attrs.evolve(flight, read=read, lands=lands)


def time_of(
    trace: Trace, policy: Policy, machine: Machine = MACHINES[90], periods: Mapping[Loop, float] | None = None
) -> Timeline:
    """Give the events of a trace their times.

    Args:
        trace: trace of one block.
        policy: `simulated` counts steps of each role. `modelled` counts clocks, and assumes one block per SM, all warps
            of a role in step, roles that do not slow each other's issue, and tensor cores that compute one product at a
            time.
        machine: the GPU, with its latencies.
        periods: by loop with left-out iterations, the time of one iteration; 0 for a loop that is not given.
    """
    clock = Clock(trace, policy, machine, periods=periods or {})
    for event in trace.events:
        if event.kind != "run" or event.reads:
            clock.event(event)
    clock.close(clock.open)
    boxes = [b for b in clock.boxes if b.end > b.start]
    boxes += [Box(role, "tile", *span, f"tile {tile}", None) for (role, tile), span in clock.tiles.items()]
    mine = (time for (rank, _), time in clock.now.items() if rank == trace.rank)
    total = max([*mine, *(box.end for box in boxes)], default=0.0)
    return Timeline(
        policy, tuple(boxes), tuple(clock.fills), tuple(clock.barriers), tuple(clock.gaps), total, clock.settled()
    )
