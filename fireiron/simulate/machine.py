"""Coroutines over sets of threads, and the barriers at which they meet.

Today one coroutine runs a whole block; a role or a warp of its own is one more coroutine over fewer threads.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.kernel.ir import Sync
from fireiron.simulate.leaves import SKIP
from fireiron.simulate.order import Array
from fireiron.simulate.state import Machine, Place
from fireiron.simulate.units import unit_threads


@attrs.frozen(eq=False)
class Arrival:
    """Reach a barrier.

    Args:
        statement: the barrier.
        place: where it stands.
        active: the threads that reach it (threads), or None for all of the coroutine's.
    """

    statement: Sync
    place: Place
    active: Array | None


@attrs.define(eq=False)
class Coroutine:
    """Run threads that follow one program together.

    Args:
        threads: which threads of the block, a mask.
        steps: its execution, stopping at barriers.
        arrival: the barrier at which it waits.
        present: its threads there.
        finished: whether it ended.
    """

    threads: Array
    steps: Iterator[Arrival]
    arrival: Arrival | None = None
    present: Array | None = None
    finished: bool = False


def run(machine: Machine, coroutines: list[Coroutine]) -> None:
    """Run the coroutines of one block to their ends.

    Raises:
        SimulationError: `divergent-barrier`, `deadlock`.
    """
    while True:
        for coroutine in coroutines:
            while coroutine.arrival is None and not coroutine.finished:
                _advance(machine, coroutine)
                _release(machine, coroutines)
        if all(coroutine.finished for coroutine in coroutines):
            return
        if all(coroutine.finished or coroutine.arrival is not None for coroutine in coroutines):
            raise _deadlock(machine, coroutines)


def _advance(machine: Machine, coroutine: Coroutine) -> None:
    arrival = next(coroutine.steps, None)
    if arrival is None:
        coroutine.finished = True
        return
    present = coroutine.threads if arrival.active is None else coroutine.threads & arrival.active
    for unit in unit_threads(arrival.statement.level, machine.threads):
        mine = coroutine.threads[unit]
        here = present[unit]
        if here.any() and (here != mine).any():
            raise _divergent(machine, arrival, unit[here], unit[mine & ~here])
    coroutine.arrival, coroutine.present = arrival, present


def _release(machine: Machine, coroutines: list[Coroutine]) -> None:
    """Open every barrier whose units are complete."""
    for leader in coroutines:
        if leader.arrival is None or leader.present is None:
            continue
        level = leader.arrival.statement.level
        units = [unit for unit in unit_threads(level, machine.threads) if leader.present[unit].any()]
        waiting = [c for c in coroutines if c.arrival is not None and c.arrival.statement.level == level]
        there = np.zeros(machine.threads, bool)
        for coroutine in waiting:
            assert coroutine.present is not None
            there |= coroutine.present
        if not all(there[unit].all() for unit in units):
            continue
        machine.barriers += len(units)
        if len(units) == 1 and len(units[0]) == machine.threads:
            machine.order.join_all()
        else:
            machine.order.join(units)
        touched = np.concatenate(units) if units else np.zeros(0, np.int64)
        for coroutine in waiting:
            assert coroutine.present is not None
            coroutine.present = coroutine.present.copy()
            coroutine.present[touched] = False
            if not coroutine.present.any():
                coroutine.arrival = coroutine.present = None


def _divergent(machine: Machine, arrival: Arrival, here: Array, absent: Array) -> SimulationError:
    level = arrival.statement.level
    return SimulationError(
        "divergent-barrier",
        f"{arrival.place}: {spans(here)} of block {machine.order.block} wait at the barrier of their {level} "
        f"({arrival.statement.reason}) for {spans(absent)}, which the condition around it keeps away",
        fix=f"move the barrier out of the condition, or make the condition uniform in each {level}",
        link=arrival.place.link,
        path=arrival.place.path or arrival.place.title,
    )


def _deadlock(machine: Machine, coroutines: list[Coroutine]) -> SimulationError:
    lines: list[str] = []
    first: Arrival | None = None
    for coroutine in coroutines:
        if coroutine.arrival is not None and coroutine.present is not None:
            first = first or coroutine.arrival
            level = coroutine.arrival.statement.level
            units = [u for u in unit_threads(level, machine.threads) if coroutine.present[u].any()]
            needed = np.concatenate([unit[~coroutine.present[unit]] for unit in units])
            reason = coroutine.arrival.statement.reason
            here = spans(np.flatnonzero(coroutine.present))
            lines.append(f"{here} wait at a barrier of their {level} ({reason}) for {spans(needed)}")
        else:
            lines.append(f"{spans(np.flatnonzero(coroutine.threads))} have finished")
    assert first is not None
    return SimulationError(
        "deadlock",
        f"block {machine.order.block} cannot go on: " + "; ".join(lines),
        fix="let all of them reach the same barriers",
        link=first.place.link,
        path=first.place.path or first.place.title,
    )


def spans(threads: Array) -> str:
    """Name threads as ranges.

    Example:
        >>> spans(np.array([0, 1, 2, 5]))
        'threads 0..2, 5'
    """
    cuts = np.flatnonzero(np.diff(threads) != 1) + 1
    parts = [f"{p[0]}..{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in np.split(threads, cuts) if len(p)]
    text = ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")
    return f"thread {text}" if len(threads) == 1 else f"threads {text}"


def barrier_mask(act: Array | str | None) -> Array | None:
    """Give the threads that a mask over (1, threads) lets through."""
    assert act != SKIP if isinstance(act, str) else True
    return None if act is None or isinstance(act, str) else act[0]
