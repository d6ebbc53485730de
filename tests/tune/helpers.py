"""What other processes run in the tests, and a measurer whose times are made up."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from fireiron import MatMulChain, space
from fireiron.jit.cache import Entry
from fireiron.schedules import simt
from fireiron.tune.candidates import Built, Failure
from fireiron.tune.machine import Machine, State
from fireiron.tune.problem import Problem
from fireiron.tune.record import Record
from fireiron.tune.records import append
from fireiron.tune.session import Trial
from fireiron.tune.space import point

GPU = Machine("NVIDIA Test GPU", "sm_90a", driver="580.1")


@space(m=(32, 64, 128), n=(32, 64, 128), k=(8, 16))
def small(spec: MatMulChain, m: int = 64, n: int = 64, k: int = 8) -> MatMulChain:
    """Tile as Listing 2 does."""
    return simt.listing2(spec, m, n, k)


@attrs.frozen
class Plan:
    """Hold what a preset that ranks its own points chooses among."""

    m: int = 32
    n: int = 64


def plans(spec: MatMulChain) -> tuple[Plan, ...]:
    """Rank: illegal where a tile is no multiple of what threads compute, then large before small."""
    return () if spec.batch else (Plan(7, 7), Plan(64, 128), Plan(64, 64), Plan(), Plan(32, 32))


@space("sm_80", plan=plans)
def ranked(spec: MatMulChain, plan: Plan = Plan()) -> MatMulChain:
    """Tile as Listing 2 does."""
    return simt.listing2(spec, plan.m, plan.n)


def rude(spec: Any, how: str = "well") -> Any:
    """Do what no preset should."""
    match how:
        case "exit":
            sys.exit(3)
        case "end":
            os._exit(3)
        case "fork":
            os.fork()
        case "print":
            print("x" * 10_000)
        case _:
            pass
    return simt.listing2(spec, 32, 32)


@space(m=(64,))
def broken(spec: MatMulChain, m: int = 64) -> MatMulChain:
    """Fail as users' functions do."""
    raise ZeroDivisionError("of the user")


class FakeMeasurer:
    """Give each candidate a time by its keywords, or a failure."""

    machine = GPU

    def __init__(self, us: Callable[[dict[str, Any]], float | Failure]) -> None:
        self.us = us
        self.notes: list[str] = []
        self.known: dict[int, dict[str, Any]] = {}
        self.lose: set[int] = set()
        self.interrupt_after: int | None = None
        self.rounds: list[tuple[int, int]] = []

    def state(self) -> State:
        return State(sm_mhz=1755, power_w=500.0)

    def trial(self, index: int, built: Built, samples: int) -> Sequence[float] | Failure:
        assert built.entry is not None
        if self.interrupt_after is not None and len(self.known) >= self.interrupt_after:
            raise KeyboardInterrupt
        found = self.us(built.candidate.point.keywords)
        if isinstance(found, Failure):
            return found
        self.known[index] = built.candidate.point.keywords
        return [found] * samples

    def sample(self, indices: Sequence[int], samples: int) -> tuple[Mapping[int, Sequence[float]], dict[int, Failure]]:
        self.rounds.append((len(indices), samples))
        lost = {i: Failure("run", "hang", "no answer within 20 s") for i in indices if i in self.lose}
        return {i: [float(self.us(self.known[i]))] * samples for i in indices if i not in lost}, lost  # type: ignore[arg-type]


class FakeSession:
    """Stand for a GPU session in another process: entries are texts that say what happens."""

    def __init__(self, spec: Any) -> None:
        self.loaded: dict[int, Any] = {}

        self.keys: set[int] = set()

    def prove(self, key: int, proof: Any) -> None:
        self.keys.add(key)

    def trial(self, index: int, entry: Any, samples: int, key: int, plain: bool) -> Trial:
        assert key in self.keys
        _do(entry)
        self.loaded[index] = entry
        return Trial("3 rows are wrong") if entry == "wrong" else Trial("", (1.0,) * samples)

    def load(self, index: int, entry: Any) -> None:
        self.loaded[index] = entry

    def sample(self, indices: Sequence[int], samples: int) -> dict[int, list[float]]:
        for index in indices:
            if self.loaded[index].startswith("late "):
                _do(self.loaded[index].removeprefix("late "))
        return {index: [2.0] * samples for index in indices}


def _do(what: str) -> None:
    if what == "hang":
        time.sleep(60)
    if what == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "raise":
        raise ValueError("an illegal address")


def built(what: str) -> Built:
    return Built(None, what)  # type: ignore[arg-type]


def double(x: int) -> int:
    print("this must not get between the answers")
    return 2 * x


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def die(code: int) -> None:
    os._exit(code)


def leave(code: int) -> None:
    sys.exit(code)


def fork_and_return(value: int) -> int:
    os.fork()  # both come back out of the task
    return value


def fork_and_die(path: str, code: int) -> None:
    child = os.fork()
    if child == 0:
        time.sleep(300)
    Path(path).write_text(str(child))
    os._exit(code)


def read_all() -> str:
    return sys.stdin.read()


def print_much() -> None:
    text = "x" * (1 << 20)
    for _ in range(300):
        os.write(1, text.encode())


def unpicklable() -> Any:
    return lambda: None


def record(
    us: float | None = 10.0,
    problem: Problem | None = None,
    samples: int = 5,
    device: str = "NVIDIA Test GPU",
    preset: str = "simt.sgemm",
    when: str = "",
    **keywords: Any,
) -> Record:
    failure = None if us is not None else ("run", "hang", "no answer")
    chosen = point(keywords or {"m": 64})
    where = {"fireiron": "0.1.0"}
    return Record(
        problem or Problem(512, 512, 512), preset, chosen, device, "sm_90a", us=us, samples=samples if us else 0,
        failure=failure, when=when, machine=where,
    )  # fmt: skip


def write_many(path: str, writer: int, count: int) -> None:
    for i in range(count):
        append(Path(path), [record(us=1.0 + i, m=writer, i=i, pad="x" * 190)])


__all__ = ["Entry", "FakeMeasurer", "FakeSession"]
