"""Mistakes planted where blocks of a cluster read each other: the simulator and the walk of edges find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, by_cluster, vector
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import For, If, Kernel, Region, Statement, Sync, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.language.levels import Cluster
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

    def behind(self, meeting: Sync) -> Kernel:
        """Move a barrier behind the statement that it stands ahead of."""

        def moved(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
            out = [attrs.evolve(s, body=moved(s.body)) if isinstance(s, For | If | Region) else s for s in body]
            for i, s in enumerate(out[:-1]):
                if s is meeting:
                    out[i], out[i + 1] = out[i + 1], s
                    break
            return tuple(out)

        return attrs.evolve(self.kernel, body=moved(self.kernel.body))


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
    moved = [m for m in case.meetings if "written before" in m.reason]
    assert moved
    for meeting in moved:
        broken = case.behind(meeting)
        assert unordered(broken) != (), meeting.reason
        assert case.outcome(broken) != "right", meeting.reason
