"""Coroutines of threads, and their waits: for barriers, phases of mbarriers, numbered barriers, and other coroutines.

One coroutine executes a whole block until its warps split into roles; each role then has its own coroutine (or each
warpgroup of it, where nothing wider executes together). Blocks of a cluster run together. Bulk copies land as late as
is legal: when all coroutines wait and one of them awaits that copy's barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs
import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import Sync
from fireiron.language.levels import Cluster
from fireiron.simulate.barriers import Gate, Slot, Turnstile
from fireiron.simulate.order import Array, every, some
from fireiron.simulate.state import Machine, Place, Team
from fireiron.simulate.units import unit_threads


@attrs.frozen(eq=False)
class Arrival:
    """The wait of units at a barrier of a level.

    Args:
        statement: the barrier.
        place: the statement's site.
        active: the threads that reach it (threads), or None for all of the coroutine's.
        first: number in the cluster of the first thread of the range that is divided into the level's units.
        size: number of threads of that range, None for the whole cluster.
    """

    statement: Sync
    place: Place
    active: Array | None
    first: int = 0
    size: int | None = None


@attrs.frozen(eq=False)
class Waiting:
    """The wait of threads for a phase of an mbarrier.

    Args:
        team: the waiting team.
        place: the statement's site.
        slot: the mbarrier.
        parity: parity of the phase.
        threads: mask of the waiting threads in the cluster.
        phase: number of the current phase when the wait began.
        wide: whether the threads then see other blocks' writes.
    """

    team: Team
    place: Place
    slot: Slot
    parity: int
    threads: Array
    phase: int
    wide: bool

    @property
    def ready(self) -> bool:
        """Say whether the last completed phase has this parity.

        Raises:
            SimulationError: `phase-ahead` where two phases were completed since, so that a GPU might miss the first.
        """
        if self.slot.phase - self.phase > 1:
            raise self.team.error(
                self.place,
                "phase-ahead",
                f"{self.place}: phases {self.phase} to {self.slot.phase - 1} of {self.slot.name} were completed while "
                f"{self.team.label} awaited parity {self.parity}, and may miss its phase",
                "complete a phase only after all waiters of the phase before it have continued: compare the counts",
            )
        return self.slot.phase & 1 != self.parity

    def resume(self) -> None:
        """Merge what the phase's arrivals released into the threads' vector clocks."""
        if self.team.machine.check:
            self.team.order.learn(self.threads, self.slot.seen(self.wide))

    def __str__(self) -> str:
        return f"{self.team.label} awaits {self.slot.awaits(self.parity)}"


@attrs.frozen(eq=False)
class Standing:
    """The wait of threads at a numbered barrier.

    Args:
        team: the waiting team.
        place: the statement's site.
        number: of the barrier.
        turnstile: the barrier's state.
        generation: how often the barrier had opened before the wait.
        threads: mask of the waiting threads in the cluster.
    """

    team: Team
    place: Place
    number: int
    turnstile: Turnstile
    generation: int
    threads: Array

    @property
    def ready(self) -> bool:
        """Say whether the barrier has opened since."""
        return self.turnstile.generation > self.generation

    def resume(self) -> None:
        """Merge what the arriving threads released into the threads' vector clocks."""
        assert self.turnstile.completed is not None
        self.team.order.learn(self.threads, self.turnstile.completed)

    def __str__(self) -> str:
        missing = self.turnstile.threads - len(self.turnstile.arrived)
        return f"{self.team.label} waits at barrier {self.number} for {missing} of {self.turnstile.threads} threads"


@attrs.frozen(eq=False)
class Gathering:
    """The wait of a thread at a counter for units of other blocks.

    Args:
        team: the waiting team.
        place: the statement's site.
        gate: the counter's state.
        count: number of units that meet.
        threads: mask of the waiting thread among all threads that run together.
    """

    team: Team
    place: Place
    gate: Gate
    count: int
    threads: Array

    @property
    def ready(self) -> bool:
        """Say whether all units have arrived."""
        return self.gate.arrived >= self.count

    def resume(self) -> None:
        """Merge what the units released into the thread's vector clock."""
        if self.gate.told is not None:
            self.team.order.learn(self.threads, self.gate.told)

    def __str__(self) -> str:
        return f"{self.team.label} waits at {self.gate.name} for {self.count - self.gate.arrived} of {self.count} units"


@attrs.frozen(eq=False)
class Fork:
    """The wait of a block for its roles' coroutines, which must all end before the block continues."""

    children: list[Coroutine]

    @property
    def ready(self) -> bool:
        """Say whether all roles have ended."""
        return all(child.finished for child in self.children)

    def resume(self) -> None:
        """Do nothing: the end of a role orders no accesses."""


Event: TypeAlias = Arrival | Waiting | Standing | Gathering | Fork


@attrs.define(eq=False)
class Coroutine:
    """Hold threads that execute one program together.

    Args:
        threads: mask of its threads in the cluster.
        steps: a generator that executes the program, and stops where it may have to wait.
        label: its name in reports.
        arrival: the barrier of a level at which it waits, if any.
        present: its threads at that barrier.
        event: any other wait.
        finished: whether it has ended.
        top: whether its threads exit when it ends.
    """

    threads: Array
    steps: Iterator[Event]
    label: str = ""
    arrival: Arrival | None = None
    present: Array | None = None
    event: Waiting | Standing | Gathering | Fork | None = None
    finished: bool = False
    top: bool = True

    @property
    def stopped(self) -> bool:
        """Say whether the coroutine waits."""
        return self.arrival is not None or self.event is not None


def run(machine: Machine, coroutines: list[Coroutine]) -> None:
    """Run the coroutines of one cluster to their ends.

    Raises:
        SimulationError: `divergent-barrier`, `deadlock`.
    """
    everyone = list(coroutines)
    while True:
        moved = False
        for coroutine in everyone:
            if coroutine.event is not None and coroutine.event.ready:
                coroutine.event.resume()
                coroutine.event = None
            while not coroutine.stopped and not coroutine.finished:
                moved = True
                _advance(machine, coroutine)
                _release(machine, everyone)
        started = [c.event for c in everyone if isinstance(c.event, Fork)]
        fresh = [child for fork in started for child in fork.children if child not in everyone]
        everyone += fresh
        if all(coroutine.finished for coroutine in everyone):
            return
        if not moved and not fresh and not _land(machine, everyone):
            raise _deadlock(machine, everyone)


def _land(machine: Machine, coroutines: list[Coroutine]) -> bool:
    """Land copies for one awaited barrier until its phase is complete."""
    for coroutine in coroutines:
        event = coroutine.event
        if isinstance(event, Waiting) and event.slot.flights and not event.slot.pending:
            while not event.ready and event.slot.land(machine):
                pass
            return True
    return False


def _advance(machine: Machine, coroutine: Coroutine) -> None:
    event = next(coroutine.steps, None)
    if event is None:
        coroutine.finished = True
        return
    if not isinstance(event, Arrival):
        if event.ready:
            event.resume()
        else:
            coroutine.event = event
        return
    present = coroutine.threads if event.active is None else coroutine.threads & event.active
    for unit in _units(machine, event):
        mine = coroutine.threads[unit]
        here = present[unit]
        if some(here) and some(here != mine):
            raise _divergent(machine, event, unit[here], unit[mine & ~here])
    coroutine.arrival, coroutine.present = event, present


def _units(machine: Machine, arrival: Arrival) -> list[Array]:
    if arrival.statement.level == Cluster:
        return [np.arange(*_cluster(machine, arrival))]
    size = machine.order.threads if arrival.size is None else arrival.size
    return [unit + arrival.first for unit in unit_threads(arrival.statement.level, size)]


def _cluster(machine: Machine, arrival: Arrival) -> tuple[int, int]:
    """Return the first thread of an arrival's cluster, and the thread after its last one."""
    threads = machine.kernel.cluster * machine.kernel.threads
    first = arrival.first // threads * threads
    return first, first + threads


def _scope(machine: Machine, arrival: Arrival) -> tuple[int, int | None]:
    """Return the range of threads that is divided into units of the arrival's level."""
    return _cluster(machine, arrival) if arrival.statement.level == Cluster else (arrival.first, arrival.size)


def _release(machine: Machine, coroutines: list[Coroutine]) -> None:
    """Open every barrier that all threads of a unit have reached."""
    for leader in coroutines:
        if leader.arrival is None or leader.present is None:
            continue
        arrival = leader.arrival
        level = arrival.statement.level
        units = [unit for unit in _units(machine, arrival) if some(leader.present[unit])]
        scope = _scope(machine, arrival)
        waiting = [
            c
            for c in coroutines
            if c.arrival is not None and c.arrival.statement.level == level and scope == _scope(machine, c.arrival)
        ]
        there = np.zeros(machine.order.threads, bool)
        for coroutine in waiting:
            assert coroutine.present is not None
            there |= coroutine.present
        if level == Cluster:
            # Threads that have ended count as arrived.
            for coroutine in coroutines:
                if coroutine.finished and coroutine.top:
                    there |= coroutine.threads
        if not all(every(there[unit]) for unit in units):
            continue
        machine.barriers += len(units)
        if arrival.statement.relaxed:
            _tell_of_barriers(machine, units)
        elif len(units) == 1 and len(units[0]) == machine.order.threads:
            machine.order.join_all()
        else:
            machine.order.join(units)
        touched = np.concatenate(units) if units else np.zeros(0, np.int64)
        for coroutine in waiting:
            assert coroutine.present is not None
            coroutine.present = coroutine.present.copy()
            coroutine.present[touched] = False
            if not some(coroutine.present):
                coroutine.arrival = coroutine.present = None


def _tell_of_barriers(machine: Machine, units: list[Array]) -> None:
    """Give threads that met at a relaxed barrier the initialisations of mbarriers that they fenced, and no more."""
    known = machine.order.matrix()
    for member in machine.members:
        for slot in (slot for ring in member.barriers.values() for slot in ring):
            for threads in units:
                if slot.fenced is not None and slot.initialiser in threads:
                    known[threads, slot.initialiser] = np.maximum(known[threads, slot.initialiser], slot.fenced)


def _divergent(machine: Machine, arrival: Arrival, here: Array, absent: Array) -> SimulationError:
    level = arrival.statement.level
    where, (here, absent) = _local(machine, here, absent)
    return machine.error(
        arrival.place,
        "divergent-barrier",
        f"{arrival.place}: {spans(here)} of {where} wait at the barrier of their {level} "
        f"({arrival.statement.reason}) for {spans(absent)}, which the condition around it keeps away",
        f"move the barrier out of the condition, or make the condition uniform in each {level}",
    )


def _local(machine: Machine, *threads: Array) -> tuple[str, list[Array]]:
    """Number threads within their block, or within the cluster if they are of several blocks; return also which."""
    each, first = machine.kernel.threads, machine.order.group * machine.together
    ranks = {int(thread) // each for part in threads for thread in part}
    if len(ranks) != 1:
        return (
            f"the blocks that run with block {first}"
            if machine.kernel.cooperative
            else f"the cluster of block {first}",
            list(threads),
        )
    (rank,) = ranks
    return f"block {first + rank}", [part - rank * each for part in threads]


def _deadlock(machine: Machine, coroutines: list[Coroutine]) -> SimulationError:
    lines: list[str] = []
    first: Place | None = None
    many = machine.together > 1
    for coroutine in coroutines:
        if isinstance(coroutine.event, Waiting | Standing | Gathering):
            first = first or coroutine.event.place
            lines.append(str(coroutine.event))
        elif isinstance(coroutine.event, Fork):
            continue
        elif coroutine.arrival is not None and coroutine.present is not None:
            first = first or coroutine.arrival.place
            level = coroutine.arrival.statement.level
            units = [u for u in _units(machine, coroutine.arrival) if some(coroutine.present[u])]
            needed = np.concatenate([unit[~coroutine.present[unit]] for unit in units])
            reason = coroutine.arrival.statement.reason
            where, (here, needed) = _local(machine, np.flatnonzero(coroutine.present), needed)
            who = f"{spans(here)} of {where}" if many else spans(here)
            lines.append(f"{who} wait at a barrier of their {level} ({reason}) for {spans(needed)}")
        elif coroutine.label:
            lines.append(f"{coroutine.label} has finished")
        else:
            lines.append(f"{spans(np.flatnonzero(coroutine.threads))} have finished")
    assert first is not None
    who = f"block {machine.order.group}"
    if many:
        start, last = machine.order.group * machine.together, (machine.order.group + 1) * machine.together - 1
        who = f"{'the grid' if machine.kernel.cooperative else 'the cluster'} of blocks {start} to {last}"
    return machine.error(first, "deadlock", f"{who} cannot go on: " + "; ".join(lines), _advice(coroutines))


def _advice(coroutines: list[Coroutine]) -> str:
    if any(isinstance(c.event, Waiting) for c in coroutines):
        return "compare counts, bytes, parities and trip counts of those who arrive with those of who waits"
    return "let all of them reach the same barriers"


def spans(threads: Array) -> str:
    """Write numbers of threads as ranges.

    Example:
        >>> spans(np.array([0, 1, 2, 5]))
        'threads 0..2, 5'
    """
    cuts = np.flatnonzero(np.diff(threads) != 1) + 1
    parts = [f"{p[0]}..{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in np.split(threads, cuts) if len(p)]
    text = ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")
    return f"thread {text}" if len(threads) == 1 else f"threads {text}"
