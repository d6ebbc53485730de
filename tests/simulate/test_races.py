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
