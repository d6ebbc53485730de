"""The timer on a torch whose clock is made up: what is flushed, which rounds count, what a failed capture costs."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from bench import timer as timers
from bench.timer import TorchTimer, summary


class Clock:
    """Let work advance a time that events read."""

    def __init__(self) -> None:
        self.us = 0.0
        self.flushes = 0
        self.flushing = 0  # since the GPU was idle
        self.late = 0  # how many of them are over when a launch is enqueued
        self.waited = 0
        self.settled = 0
        self.capturing: list[Any] | None = None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            self.at = 0.0

        def record(self) -> None:
            self.at = clock.us

        def synchronize(self) -> None: ...

        def query(self) -> bool:
            return clock.late > clock.flushing

        def elapsed_time(self, other: Any) -> float:
            return (other.at - self.at) * 1e-3

    class Graph:
        def __init__(self) -> None:
            self.launches: list[Any] = []

        def replay(self) -> None:
            for launch in self.launches:
                launch()

    @contextmanager
    def graph(made: Graph) -> Any:
        clock.capturing = made.launches
        try:
            yield
        finally:
            clock.capturing = None

    class Buffer:
        def zero_(self) -> None:
            clock.flushes += 1
            clock.flushing += 1
            clock.us += 60

        def add_(self, value: int) -> None:
            clock.settled += clock.waited
            clock.waited = 0

    def synchronize() -> None:
        clock.waited = 1
        clock.flushing = 0

    cuda = SimpleNamespace(
        Event=Event, CUDAGraph=Graph, graph=graph, synchronize=synchronize,
        get_device_properties=lambda: SimpleNamespace(L2_cache_size=1 << 20),
    )  # fmt: skip
    torch = SimpleNamespace(cuda=cuda, empty=lambda *_, **__: Buffer(), zeros=lambda *_, **__: Buffer(), int8="int8")
    monkeypatch.setattr(timers, "torch_module", lambda: torch)
    return clock


def work(clock: Clock, us: float, fails_in_capture: bool = False) -> Any:
    def launch() -> None:
        if clock.capturing is not None:
            if fails_in_capture:
                raise RuntimeError("operation not permitted when stream is capturing\nand more")
            clock.capturing.append(launch)
            return
        clock.us += us

    return launch


def test_each_launch_is_timed_after_a_flush(clock: Clock) -> None:
    found = TorchTimer().burst({"a": work(clock, 30), "b": work(clock, 45)}, rounds=7, budget_s=60)
    assert found["a"].median_us == pytest.approx(30)
    assert found["b"].median_us == pytest.approx(45)
    assert found["a"].samples == 7
    assert clock.flushes == 2 * (7 + timers.WARM_ROUNDS)
    assert clock.settled == clock.flushes, "on an idle GPU, behind a kernel"


def test_a_launch_that_comes_late_gets_longer_flushes(clock: Clock) -> None:
    clock.late = 3
    assert TorchTimer().burst({"a": work(clock, 30)}, rounds=5, budget_s=60)["a"].median_us == pytest.approx(30)
    assert clock.flushes == (1 + 2 + 4) * (5 + timers.WARM_ROUNDS)


@pytest.mark.parametrize("names", ["abcd", "abcde"])
def test_no_turn_of_a_name_keeps_to_a_period(clock: Clock, names: str) -> None:
    order: list[str] = []
    launches = {name: (lambda name=name: order.append(name)) for name in names}
    TorchTimer().burst(launches, rounds=13, budget_s=60)
    phases = {i % 4 for i, name in enumerate(order) if name == "a"}
    assert phases == {0, 1, 2, 3}, (
        "of four in one order, or five that rotate, each would keep to one of every four launches"
    )


def test_time_that_is_up_leaves_five_rounds(clock: Clock) -> None:
    assert TorchTimer().burst({"a": work(clock, 30)}, rounds=100, budget_s=0.0)["a"].samples == 5


def test_graphs_give_the_share_of_one_launch(clock: Clock) -> None:
    sets = {"a": [work(clock, 5)] * 3, "b": [work(clock, 7)] * 3, "c": [work(clock, 1, fails_in_capture=True)] * 3}
    found, refused = TorchTimer().graphs(sets, rounds=9, budget_s=60)
    assert {name: times.median_us for name, times in found.items()} == pytest.approx({"a": 5, "b": 7})
    assert refused == {"c": "no CUDA graph of it: operation not permitted when stream is capturing"}
    assert found["a"].samples == 9


def test_sustained_runs_are_watched_in_their_middle(clock: Clock) -> None:
    seen: list[float] = []
    us = TorchTimer().sustained(work(clock, 50), 50.0, 0.01, lambda: seen.append(clock.us))
    assert us == pytest.approx(50)
    assert len(seen) == 1


def test_a_launch_that_fails_is_the_slowest(clock: Clock) -> None:
    def fails() -> None:
        raise RuntimeError("status 15")

    assert TorchTimer().quick([fails, work(clock, 9)]) == [float("inf"), pytest.approx(9)]


def test_quantiles() -> None:
    found = summary([float(i) for i in range(11)], "made up")
    assert (found.p20, found.median_us, found.p80) == (2.0, 5.0, 8.0)
    assert found.spread == pytest.approx(0.6)
