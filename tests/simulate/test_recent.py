"""Lists of accessed elements are kept between simulations; what differs between memories is seen all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron.algebra.expr import lt
from fireiron.base.errors import SimulationError
from fireiron.simulate import simulate
from fireiron.simulate.access import build
from fireiron.simulate.memory import pointer
from fireiron.simulate.order import Order
from fireiron.simulate.recent import Recent


def zeros(count: int) -> Any:
    return np.zeros(count, np.float32)


def test_the_oldest_values_go() -> None:
    recent = Recent[str](10)
    for at, weight in enumerate((4, 4, 2, 3)):
        recent.keep(at, str(at), weight)
    assert [recent.get(at) for at in range(4)] == [None, "1", "2", "3"]
    assert recent.weight == 9
    recent.keep(3, "other", 100)  # what another thread has kept meanwhile stays
    assert (recent.get(3), recent.weight) == ("3", 9)
    recent.keep(4, "4", 11)  # too heavy by itself
    assert (recent.get(4), recent.weight) == (None, 0)


def test_equal_views_of_equal_memories_are_listed_once(k: Any) -> None:
    k.gl("A", (64,))
    at = np.arange(32) * 2
    stores = [pointer(p, zeros(64), {}, Order(32, False), True) for p in (*k.pointers, *k.pointers)]
    one, other = (build(s, at, np.arange(2), (1, 32), None, (at,)) for s in stores)
    assert one.listed is other.listed is not None
    assert (one.storage, other.storage) == tuple(stores)


@pytest.mark.parametrize("memory", ["GL", "SH", "RF"])
def test_a_smaller_memory_refuses_what_a_larger_one_takes(k: Any, memory: str) -> None:
    def kernel(count: int) -> tuple[Any, Any]:
        kit = type(k)()
        c = kit.gl("C", (count,), "output")
        place = {"GL": lambda: c, "SH": lambda: kit.sh("s", count), "RF": lambda: kit.rf("r", count)}[memory]()
        at = kit.thread if memory != "RF" else 31
        return kit.kernel(kit.fill(kit.at(place, at)), kit.fill(kit.at(c, kit.thread), write=lt(kit.thread, count))), c

    simulate(kernel(32)[0], {"C": zeros(32)})
    with pytest.raises(SimulationError) as caught:
        simulate(kernel(31)[0], {"C": zeros(31)})
    assert caught.value.code == "out-of-bounds"


def test_vectors_are_aligned_in_each_memory(k: Any) -> None:
    def kernel(first: int) -> Any:
        kit = type(k)()
        kit.gl("C", (32,), "output")
        s, r = kit.sh("s", 128, first), kit.rf("r", 4)
        fill = kit.loop("i", 4, lambda i: kit.fill(kit.at(r, i)))
        return kit.kernel(fill, kit.move(kit.at(r, 0, 4), kit.at(s, kit.thread * 4, 4)), kit.fill(kit.at(s, 0)))

    def code(first: int) -> str:
        with pytest.raises(SimulationError) as caught:
            simulate(kernel(first), {"C": zeros(32)})
        return caught.value.code

    assert [code(first) for first in (0, 8, 0)] == ["race", "misaligned", "race"]
