"""The tracker finds a race exactly where a naive model with full vector clocks finds one."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import numpy as np
import pytest

from fireiron.simulate.access import Access, granules_of
from fireiron.simulate.order import Order
from fireiron.simulate.tracker import Race, Tracker

THREADS = 8
PLACES = 5


@attrs.define
class Model:
    """Compare each access with every earlier one, by the events that each thread knows of."""

    shared: bool
    block: int = -1
    events: list[tuple[int, int, int, bool]] = attrs.field(factory=list)  # block, thread, place, is a write
    known: list[set[int]] = attrs.field(factory=list)

    def begin(self, block: int) -> None:
        self.block = block
        if self.shared:
            self.events.clear()
        self.known = [set() for _ in range(THREADS)]

    def join(self, units: list[list[int]]) -> None:
        for unit in units:
            union = set().union(*(self.known[t] for t in unit))
            for t in unit:
                self.known[t] = set(union)

    def access(self, pairs: list[tuple[int, int]], write: bool) -> bool:
        """Say whether (place, thread) pairs that happen at once race with what was, or with each other."""
        race = False
        first = len(self.events)
        for place, thread in pairs:
            for number, (block, other, where, was_write) in enumerate(self.events):
                if where == place and (write or was_write) and (block, other) != (self.block, thread):
                    race |= number not in self.known[thread]
            self.events.append((self.block, thread, place, write))
        for number in range(first, len(self.events)):
            self.known[self.events[number][1]].add(number)
        return race


def units_of(size: int) -> list[list[int]]:
    return [list(range(first, first + size)) for first in range(0, THREADS, size)]


@pytest.mark.parametrize("merge", [False, True], ids=["each", "merged"])
@pytest.mark.parametrize("scope", ["SH", "GL"])
@pytest.mark.parametrize("partial", [False, True], ids=["block barriers", "all barriers"])
def test_tracker_agrees_with_the_model(scope: Literal["SH", "GL"], partial: bool, merge: bool) -> None:
    rng = np.random.default_rng(11)
    races = quiet = 0
    for _ in range(400):
        order = Order(THREADS, partial)
        tracker, model = Tracker(PLACES, order, scope, True), Model(scope == "SH")
        found = expected = False
        steps = int(rng.integers(2, 12))
        for _ in range(int(rng.integers(1, 3))):
            order.begin_block(model.block + 1)
            model.begin(model.block + 1)
            for _ in range(steps):
                kind = rng.random()
                if kind < 0.4:
                    size = int(rng.choice([2, 4, 8] if partial else [8]))
                    units = [u for u in units_of(size) if size == 8 or rng.random() < 0.7]
                    model.join(units)
                    if size == 8:
                        order.join_all()
                    elif units:
                        order.join([np.array(u) for u in units])
                else:
                    write = bool(kind < 0.55)
                    found, expected = one(rng, order, tracker, model, write, merge)
                if found or expected:
                    break
            if found or expected:
                break
        assert found == expected
        races += found
        quiet += not found
    assert races > 40
    assert quiet > 40


def one(rng: Any, order: Order, tracker: Tracker, model: Model, write: bool, merge: bool) -> tuple[bool, bool]:
    """Let some threads access some places; often few, so that runs without a race exist."""
    count = int(rng.choice([1, 1, 2, 4]))
    threads = rng.choice(THREADS, count, replace=False)
    places = rng.integers(0, PLACES, count) if not write else (rng.permutation(PLACES)[:count])
    if rng.random() < 0.05:
        places = places * 0
    order.tick(0)
    expected = model.access(list(zip(places.tolist(), threads.tolist(), strict=True)), write)
    who = (threads + 1).astype(np.int32)
    try:
        if write:
            tracker.write(places, who)
        else:
            tracker.read(*merged(places, who, merge and not order.partial))
    except Race:
        return True, expected
    return False, expected


def merged(places: Any, who: Any, merge: bool) -> Any:
    if not merge:
        return places, who
    storage: Any = type("Identity", (), {"granules": staticmethod(lambda places, who: (places, who))})
    access = Access(storage, None, None, places, who, None)  # type: ignore[arg-type]
    return granules_of(access, keep=True, exact=False)


AGENTS = 2


@attrs.define
class Event:
    place: int
    by: int  # a thread, or an agent counted from the last thread on
    write: bool
    generic: bool


@attrs.define
class AsynchronousModel:
    """Know events one by one, and apart from that those that a fence showed to the asynchronous proxy."""

    events: list[Event] = attrs.field(factory=list)
    live: list[set[int]] = attrs.field(factory=lambda: [set() for _ in range(PLACES)])
    known: list[set[int]] = attrs.field(factory=lambda: [set() for _ in range(THREADS)])
    shown: list[set[int]] = attrs.field(factory=lambda: [set() for _ in range(THREADS)])

    def verdicts(self, place: int, threads: list[int], write: bool, generic: bool) -> set[str]:
        """Judge an access that these threads make together, which all must know what is before."""
        rivals = [n for n in self.live[place] if write or self.events[n].write]
        hidden = [n for n in rivals if self.events[n].generic and not generic]
        race = any(n not in self.known[t] for n in rivals for t in threads)
        proxy = any(n in self.known[t] and n not in self.shown[t] for n in hidden for t in threads)
        return {name for name, true in (("race", race), ("proxy", proxy)) if true} or {""}

    def record(self, place: int, by: int, write: bool, generic: bool) -> None:
        self.events.append(Event(place, by, write, generic))
        number = len(self.events) - 1
        self.live[place] = {number} if write else self.live[place] | {number}
        if by < THREADS:
            self.known[by].add(number)

    def fence(self, threads: list[int]) -> None:
        for t in threads:
            self.shown[t] |= {n for n, event in enumerate(self.events) if event.by == t and event.generic}

    def told(self, threads: list[int]) -> tuple[set[int], set[int]]:
        return set().union(*(self.known[t] for t in threads)), set().union(*(self.shown[t] for t in threads))

    def learn(self, threads: list[int], told: tuple[set[int], set[int]]) -> None:
        for t in threads:
            self.known[t] |= told[0]
            self.shown[t] |= told[1]

    def hear(self, threads: list[int], agent: int) -> None:
        for t in threads:
            self.known[t] |= {n for n, event in enumerate(self.events) if event.by == THREADS + agent}


@pytest.mark.parametrize("scope", ["SH", "GL"])
@pytest.mark.parametrize("seed", range(4))
def test_tracker_agrees_with_the_model_of_agents(scope: Literal["SH", "GL"], seed: int) -> None:
    rng = np.random.default_rng(seed)
    outcomes = {"": 0, "race": 0, "proxy": 0}
    for _ in range(300):
        order = Order(THREADS, True, AGENTS)
        tracker, model = Tracker(PLACES, order, scope, True), AsynchronousModel()
        order.begin_block(0)
        messages: list[Any] = []
        found, expected = "", {""}
        for _ in range(int(rng.integers(3, 25))):
            threads = sorted(rng.choice(THREADS, int(rng.integers(1, 4)), replace=False).tolist())
            ids, kind = np.array(threads), rng.random()
            order.tick(0)
            if kind < 0.2:
                messages.append((order.released(ids), model.told(threads)))
            elif kind < 0.4 and messages:
                row, told = messages[int(rng.integers(len(messages)))]
                order.learn(ids, row)
                model.learn(threads, told)
            elif kind < 0.45:
                order.fence(ids)
                model.fence(threads)
            elif kind < 0.6:
                order.join_all()
                model.learn(list(range(THREADS)), model.told(list(range(THREADS))))
            else:
                found, expected = step(rng, order, tracker, model, threads)
            if found or expected != {""}:
                break
        assert found in expected
        outcomes[found] += 1
    assert min(outcomes.values()) > 10, outcomes


def step(
    rng: Any, order: Order, tracker: Tracker, model: AsynchronousModel, threads: list[int]
) -> tuple[str, set[str]]:
    """Let threads start something asynchronous together, of which they may hear, or one access a place itself."""
    place, write, generic = int(rng.integers(PLACES)), bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    where = np.array([place])
    by = threads[0]
    if generic:
        threads = threads[:1]
    expected = model.verdicts(place, threads, write, generic)
    try:
        if generic:
            (tracker.write if write else tracker.read)(where, np.array([by + 1], np.int32))
            if expected == {""}:
                model.record(place, by, write, True)
            return "", expected
        row = order.common(np.array(threads))
        (tracker.start_write if write else tracker.start_read)(where, row, by + 1)
    except Race as race:
        return ("proxy" if race.proxy else "race"), expected
    if expected != {""}:
        return "", expected
    agent = int(rng.integers(AGENTS))
    order.tick(0)
    (tracker.finish_write if write else tracker.finish_read)(where, -2 - agent)
    model.record(place, THREADS + agent, write, False)
    # Work ends because someone waits for it, who need not be the one that started it.
    hearers = rng.choice(THREADS, 2, replace=False).tolist()
    order.matrix()[np.array(hearers), THREADS + agent] = order.now
    model.hear(hearers, agent)
    return "", {""}
