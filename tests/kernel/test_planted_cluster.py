"""Mistakes planted where blocks of a cluster exchange data: the simulator and the walk of edges find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron import RF, Block, ColMajor, Matrix, Warp, by_cluster, matmul, products, vector
from fireiron.algebra.expr import as_expr
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Arrive,
    Await,
    Call,
    Compute,
    For,
    If,
    Kernel,
    Region,
    Roles,
    Statement,
    Sync,
    View,
    walk,
)
from fireiron.kernel.passes.edges import unordered
from fireiron.language.levels import Cluster
from fireiron.schedules import hopper
from fireiron.schedules._programs import hopper as products_on_hopper
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


def way(chain: Any, at_once: bool = False) -> Any:
    parted = chain.split("n", ways=2, multiple_of=4).parallel(Block, by_cluster(at_once=at_once))
    return parted.split("n", ways=2, multiple_of=4).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()


def scheduled(program: Any, tiles: Callable[[Any], Any], at_once: bool = False) -> Any:
    return lambda: way(tiles(program(Matrix(9, 96))), at_once)


# Blocks send each other their states. In loops, two slots alternate.
WAYS: dict[str, Callable[[], Any]] = {
    "once": scheduled(rows, lambda s: s.tile(m=1).to(Block)),
    "slots": scheduled(sums, lambda s: s.tile(m=1).to(Block).persistent()),
    "two folds": scheduled(rows, lambda s: s.tile(m=4).to(Block).tile(m=1)),
    "loops": scheduled(sums, lambda s: s.tile(m=4).to(Block).persistent().tile(m=1)),
    "all warps": scheduled(sums, lambda s: s.tile(m=1).to(Block).persistent(), at_once=True),
}
LAUNCHED = 4  # blocks: a cluster has several rows


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
            simulate(kernel, arrays, launched=LAUNCHED if kernel.persistent else None)
        except SimulationError as error:
            return error.code
        found = [compare(t.name, arrays[t.name], expected[t.name], t.dtype) for t in self.schedule.program.spec.outputs]
        return "right" if all(x.passed for x in found) else "wrong"

    def all(self, wanted: Callable[[Statement], bool]) -> list[Statement]:
        found = [s for s in walk(self.kernel.body) if wanted(s)]
        assert found, "nothing to plant a mistake in"
        return found

    def finds(self, broken: Kernel, by_walk: bool = True) -> None:
        """Require that the simulator finds a mistake, and the walk of edges too."""
        assert self.outcome(broken) != "right"
        assert not by_walk or unordered(broken) != ()

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
    schedule = WAYS[request.param]()
    return Case(schedule, schedule.lowered())


def test_blocks_send_their_states(case: Case) -> None:
    """The only barrier of the cluster stands ahead of everything; it has no fence of global memory."""
    assert case.outcome(case.kernel) == "right"
    assert unordered(case.kernel) == ()
    (meeting,) = case.all(lambda s: isinstance(s, Sync) and s.level == Cluster)
    assert isinstance(meeting, Sync)
    assert meeting.relaxed
    source = case.schedule.cuda("sm_90a")
    assert "cluster_sync" not in source
    assert "release.cluster" not in source.replace("mbarrier_init.release", "")


def test_a_dropped_barrier_of_the_cluster(case: Case) -> None:
    (meeting,) = case.all(lambda s: isinstance(s, Sync) and s.level == Cluster)
    case.finds(case.with_(meeting))


def test_a_dropped_wait(case: Case) -> None:
    for wait in case.all(lambda s: isinstance(s, Await)):
        case.finds(case.with_(wait))
        case.finds(moved(case.kernel, lambda s, w=wait: s is w, 1))


def test_bytes_that_are_not_announced(case: Case) -> None:
    for arrive in case.all(lambda s: isinstance(s, Arrive)):
        assert isinstance(arrive, Arrive)
        case.finds(case.with_(arrive))
        case.finds(case.with_(arrive, attrs.evolve(arrive, nbytes=arrive.nbytes + 4)))
        case.finds(case.with_(arrive, attrs.evolve(arrive, nbytes=arrive.nbytes - 4)), by_walk=False)


def test_a_parity_that_does_not_change(case: Case) -> None:
    if not case.kernel.persistent:
        return
    for wait in case.all(lambda s: isinstance(s, Await)):
        assert isinstance(wait, Await)
        case.finds(case.with_(wait, attrs.evolve(wait, parity=as_expr(0))), by_walk=False)


def test_one_slot_for_all_trips() -> None:
    """A block that sends the next trip's state early overwrites one that a slower block has not read yet."""
    for name in ("slots", "loops", "all warps"):
        schedule = WAYS[name]()
        case = Case(schedule, schedule.lowered())

        def first(s: Statement) -> Statement:
            match s:
                case Await(slot=slot, parity=parity):
                    return attrs.evolve(s, slot=as_expr(0), parity=(parity * 2 + slot) % 2)
                case Arrive():
                    return attrs.evolve(s, slot=as_expr(0))
                case Call(signal=(barrier, _), views=(source, into)):
                    return attrs.evolve(s, signal=(barrier, as_expr(0)), views=(source, at_slot(into)))
                case Compute(inputs=(source,)) if "cluster" in source.buffer.name:
                    return attrs.evolve(s, inputs=(at_slot(source),))
                case _:
                    return s

        case.finds(attrs.evolve(case.kernel, body=rewrite(case.kernel.body, first)), by_walk=False)


def at_slot(view: View) -> View:
    """Return a view in slot 0."""
    assert view.slot is not None
    turn = view.slot
    return attrs.evolve(view, offset=view.offset - turn % view.buffer.slots * view.buffer.size, slot=as_expr(0))


def test_warps_that_do_not_meet_before_they_send() -> None:
    """Lanes of a warp send after other lanes have read the states of the trip before."""
    schedule = WAYS["all warps"]()
    case = Case(schedule, schedule.lowered())
    for sync in case.all(lambda s: isinstance(s, Sync) and "trip before" in s.reason):
        case.finds(case.with_(sync))


def one_product(plan: Plan) -> Any:
    m = 16 if plan.swapped else 72
    return lambda: hopper.split_k(matmul(m, 128, 2048, "bf16", layout="TN", arch="sm_90"), plan)


def two_products() -> Any:
    x, h = (Matrix(72, 520, "f16", name=name) for name in "XH")
    w, u = (Matrix(520, 48, "f16", ColMajor, name=name) for name in "WU")
    plan = Plan(64, 48, 1, ways=2, through="cluster", stages=3)
    return products_on_hopper(products(Matrix(72, 48, "f16", name="Y"), (x, w), (h, u), op=lambda p, q: p * q), plan)


SUMS: dict[str, Callable[[], Any]] = {
    "every block reads": one_product(Plan(64, 64, 1, ways=2, through="cluster", stages=3)),
    "two of three blocks read": one_product(
        Plan(64, 16, 1, ways=3, panels=2, swapped=True, through="cluster", stages=3)
    ),
    "units in turn": one_product(Plan(64, 64, 2, ways=2, through="cluster", pingpong=True, stages=3)),
    "one block reads the sums of two products": two_products,
}


@pytest.fixture(params=SUMS)
def sums_of_products(request: pytest.FixtureRequest) -> Kernel:
    kernel = SUMS[request.param]().lowered()
    assert unordered(kernel) == ()
    return kernel


def test_a_barrier_of_each_block_instead_of_the_cluster_s() -> None:
    """The second block arrives at mbarriers whose initialisation nothing orders before."""
    schedule = two_products()
    case = Case(schedule, schedule.lowered())
    assert case.outcome(case.kernel) == "right"
    (meeting,) = case.all(lambda s: isinstance(s, Sync) and s.level == Cluster)
    assert isinstance(meeting, Sync)
    assert case.outcome(case.with_(meeting, attrs.evolve(meeting, level=Block))) == "uninitialised-barrier"


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
