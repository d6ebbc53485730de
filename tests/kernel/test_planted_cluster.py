"""Mistakes planted where blocks of a cluster read each other: the simulator and the walk of edges find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, by_cluster, matmul, vector
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Arrive, Await, For, If, Kernel, Region, Roles, Statement, Sync, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.language.levels import Cluster
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references


@fi.program(x="m n")
def rows(x: Any) -> Any:
    return fi.softmax(x, "n")


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.sum(x, "n")


def way(chain: Any) -> Any:
    parted = chain.split("n", ways=2, multiple_of=4).parallel(Block, by_cluster())
    return parted.split("n", ways=2, multiple_of=4).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()


def scheduled(program: Any, tiles: Callable[[Any], Any]) -> Any:
    return lambda: way(tiles(program(Matrix(9, 96))))


# Each fold's states are written before peers read them. Before they are overwritten, blocks have met: at the barrier of
# the other fold, or of the trip between where two slots alternate; one fold in two loops has neither.
WAYS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "once": (scheduled(rows, lambda s: s.tile(m=1).to(Block)), ["written", "written", "ends"]),
    "slots": (scheduled(sums, lambda s: s.tile(m=1).to(Block).persistent()), ["written", "ends"]),
    "two folds": (scheduled(rows, lambda s: s.tile(m=4).to(Block).tile(m=1)), ["written", "written", "ends"]),
    "loops": (scheduled(sums, lambda s: s.tile(m=4).to(Block).persistent().tile(m=1)), ["written", "overwritten"]),
}


@attrs.frozen
class Case:
    """Hold a schedule and its kernel."""

    schedule: Any
    kernel: Kernel

    def outcome(self, kernel: Kernel) -> str:
        """Run a kernel: the code of its fault, else whether its outputs are right."""
        arrays = random_arrays(Interface.of(kernel), {})
        expected = references(self.schedule, arrays, {})
        try:
            simulate(kernel, arrays)
        except SimulationError as error:
            return error.code
        found = [compare(t.name, arrays[t.name], expected[t.name], t.dtype) for t in self.schedule.computed.outputs]
        return "right" if all(x.passed for x in found) else "wrong"

    @property
    def meetings(self) -> list[Sync]:
        return [s for s in walk(self.kernel.body) if isinstance(s, Sync) and s.level == Cluster]

    def with_(self, old: Statement, *new: Statement) -> Kernel:
        body = rewrite(self.kernel.body, lambda s: new if s is old else s)
        assert body is not self.kernel.body
        return attrs.evolve(self.kernel, body=body)


def moved(kernel: Kernel, wanted: Callable[[Statement], bool], by: int) -> Kernel:
    """Move a statement (the only one of its kind) behind what follows it, or ahead of what stands before it."""

    def inside(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        out = [one(s) for s in body]
        at = next((i for i, s in enumerate(body) if wanted(s)), None)
        if at is not None:
            out.insert(at + by, out.pop(at))
        return tuple(out)

    def one(s: Statement) -> Statement:
        match s:
            case For(body=body) | If(body=body) | Region(body=body):
                return attrs.evolve(s, body=inside(body))
            case Roles(roles=roles):
                return Roles(tuple(attrs.evolve(r, body=inside(r.body)) for r in roles))
            case _:
                return s

    body = inside(kernel.body)
    assert body != kernel.body
    return attrs.evolve(kernel, body=body)


@pytest.fixture(params=WAYS)
def case(request: pytest.FixtureRequest) -> Case:
    schedule = WAYS[request.param][0]()
    return Case(schedule, schedule.lowered())


@pytest.mark.parametrize("name", WAYS)
def test_blocks_meet_where_data_flows_between_them(name: str) -> None:
    make, wanted = WAYS[name]
    schedule = make()
    case = Case(schedule, schedule.lowered())
    assert case.outcome(case.kernel) == "right"
    assert unordered(case.kernel) == ()
    reasons = [s.reason for s in case.meetings]
    assert len(reasons) == len(wanted), reasons
    assert all(word in reason for word, reason in zip(wanted, reasons, strict=True)), reasons


def test_a_dropped_barrier_of_the_cluster(case: Case) -> None:
    for meeting in case.meetings:
        broken = case.with_(meeting)
        assert unordered(broken) != (), meeting.reason
        assert case.outcome(broken) != "right", meeting.reason


def test_a_barrier_of_the_block_alone(case: Case) -> None:
    for meeting in case.meetings:
        broken = case.with_(meeting, attrs.evolve(meeting, level=Block))
        assert unordered(broken) != (), meeting.reason
        assert case.outcome(broken) != "right", meeting.reason


def test_a_barrier_behind_what_it_stands_ahead_of(case: Case) -> None:
    ahead = [m for m in case.meetings if "written before" in m.reason]
    assert ahead
    for meeting in ahead:
        broken = moved(case.kernel, lambda s, m=meeting: s is m, 1)
        assert unordered(broken) != (), meeting.reason
        assert case.outcome(broken) != "right", meeting.reason


SUMS: dict[str, Plan] = {
    "every block reads": Plan(64, 64, 1, ways=2, through="cluster", stages=3),
    "two of three blocks read": Plan(64, 16, 1, ways=3, panels=2, swapped=True, through="cluster", stages=3),
    "units in turn": Plan(64, 64, 2, ways=2, through="cluster", pingpong=True, stages=3),
}


@pytest.fixture(params=SUMS)
def sums_of_products(request: pytest.FixtureRequest) -> Kernel:
    m = 16 if SUMS[request.param].swapped else 72
    schedule = hopper.split_k(matmul(m, 128, 2048, "bf16", layout="TN", arch="sm_90"), SUMS[request.param])
    kernel = schedule.lowered()
    assert unordered(kernel) == ()
    return kernel


def awaits(name: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, Await) and s.barrier.name == name


def tells(name: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, If) and any(isinstance(x, Arrive) and x.barrier.name == name for x in s.body)


def test_sums_that_are_awaited_behind_their_first_read(sums_of_products: Kernel) -> None:
    assert unordered(moved(sums_of_products, awaits("summed"), 1)) != ()


def test_sums_that_are_told_before_the_warp_has_met(sums_of_products: Kernel) -> None:
    assert unordered(moved(sums_of_products, tells("summed"), -1)) != ()
    assert unordered(moved(sums_of_products, tells("taken"), -1)) != () or through_shared(sums_of_products)


def through_shared(kernel: Kernel) -> bool:
    """Say whether barriers of the store, which stand further ahead, let the warp meet."""
    return not any(isinstance(s, Sync) and "read its part" in s.reason for s in walk(kernel.body))


def test_reads_that_are_awaited_before_they_are_told(sums_of_products: Kernel) -> None:
    """Every block then waits for its own word."""
    assert unordered(moved(sums_of_products, awaits("taken"), -2)) != ()
