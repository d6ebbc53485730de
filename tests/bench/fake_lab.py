"""A laboratory on NumPy arrays whose timer says what it is told: what surrounds the timing is tested without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.arrays import Arrays, Errors
from bench.cases import Case
from bench.subjects import Launch, Prepared
from bench.timer import Times, summary
from fireiron.tune.machine import State


class FakeTimer:
    """Give each launch a time by name, and write down what was asked."""

    l2_nbytes = 1 << 20

    def __init__(self, us: Mapping[str, float]) -> None:
        self.us = us
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def burst(self, launches: Mapping[str, Launch], rounds: int, budget_s: float) -> dict[str, Times]:
        self.asked.append(("burst", tuple(launches)))
        for launch in launches.values():
            launch()
        return {name: summary([self.us.get(name, 50.0)] * 5, "events, L2 flushed") for name in launches}

    def graphs(
        self, launches: Mapping[str, Sequence[Launch]], rounds: int, budget_s: float
    ) -> tuple[dict[str, Times], dict[str, str]]:
        self.asked.append(("graphs", tuple(launches)))
        self.sets = {name: len(each) for name, each in launches.items()}
        return {
            name: summary([self.us.get(name, 50.0) / 2] * 5, "graph") for name in launches if name != "uncapturable"
        }, {name: "no CUDA graph of it" for name in launches if name == "uncapturable"}

    def sustained(self, launch: Launch, each_us: float, seconds: float, watch: Callable[[], None]) -> float:
        watch()
        return each_us * 1.1

    def quick(self, launches: Sequence[Launch], samples: int = 5) -> list[float]:
        return [float(len(launches) - i) for i in range(len(launches))]


class FakeLab:
    """Multiply on the host."""

    def __init__(self, **us: float) -> None:
        self.timer = FakeTimer(us)

    def make(self, case: Case, seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        a, b = rng.standard_normal((case.m, case.k)), rng.standard_normal((case.k, case.n))
        return Arrays(a, b, a, b, Poisonable(np.full((case.m, case.n), np.nan)))

    def compare(self, case: Case, arrays: Arrays, outs: dict[str, Any]) -> dict[str, Errors]:
        exact = arrays.a @ arrays.b
        found: dict[str, Errors] = {}
        for name, out in outs.items():
            difference = np.abs(np.nan_to_num(out.array) - exact)
            nans = int(np.isnan(out.array).sum())
            found[name] = Errors(float(difference.max()), 0.0, float(difference.max() / 1e-9), nans)
        return found

    def exact(self, case: Case, seed: int) -> tuple[Arrays, Any] | None:
        rng = np.random.default_rng(seed)
        a, b = rng.integers(1, 5, (case.m, case.k)), rng.integers(1, 5, (case.k, case.n))
        return Arrays(a, b, a, b, Poisonable(np.full((case.m, case.n), -1))), a @ b

    def differing(self, wanted: Any, outs: dict[str, Any]) -> dict[str, int]:
        return {name: int((out.array != wanted).sum()) for name, out in outs.items()}

    def settle(self) -> None: ...

    def state(self) -> State:
        return State(sm_mhz=1980, power_w=650.0)


class Poisonable:
    """Hold an array, as torch's tensors are held."""

    def __init__(self, array: Any) -> None:
        self.array = array


class Peer:
    """Compute with NumPy, rightly or not."""

    def __init__(self, name: str, ours: bool = False, wrong: str = "") -> None:
        self.name, self.ours, self.wrong = name, ours, wrong

    def prepare(self, case: Case, arrays: Any, rough: Any) -> Prepared:
        if self.wrong == "refuses":
            raise RuntimeError("cannot do it\nand more")

        def launch(found: Arrays) -> Launch:
            def once() -> None:
                if self.wrong == "crashes":
                    raise RuntimeError("an illegal memory access")
                if self.wrong != "writes nothing":
                    found.out.array[...] = found.a @ found.b + (1.0 if self.wrong == "is off" else 0.0)
                    if self.wrong == "loses a term" and found.a.dtype.kind == "i":  # random numbers hide it
                        found.out.array[3, 5] -= found.a[3, 0] * found.b[0, 5]

            return once

        return Prepared(launch, f"{self.name} in detail")
