"""Loads ahead of tiles: rows whose loads run trips ahead are right, and mistakes planted in them are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fireiron import RF, SH, Block, Group, Matrix, Thread, Vector, Warp, by_cluster, cp_async, vector
from fireiron.algebra.expr import as_expr, substitute
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Commit, Compute, For, If, Kernel, Let, Statement, Sync, View, Wait, walk
from fireiron.kernel.lower import ahead
from fireiron.schedules import rows
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references

WIDTH = 500  # the last warp has fewer columns than the others
WAYS: dict[str, Callable[[Any], Any]] = {
    "warps": lambda s: s.tile(m=1).to(Block).persistent().pipeline(2).split("n", ways=2, multiple_of=4).parallel(Warp),
    "one slot": lambda s: (
        s.tile(m=1).to(Block).persistent().pipeline(1).split("n", ways=2, multiple_of=4).parallel(Warp)
    ),
    "deep": lambda s: s.tile(m=1).to(Block).persistent().pipeline(4).split("n", ways=2, multiple_of=4).parallel(Warp),
    "cluster": lambda s: (
        s.tile(m=1).to(Block).persistent().pipeline(2).split("n", ways=2, multiple_of=4).parallel(Block, by_cluster())
        .split("n", ways=2, multiple_of=4).parallel(Warp)
    ),
    "loop": lambda s: s.tile(m=8).to(Block).tile(m=1).pipeline(2).split("n", ways=2, multiple_of=4).parallel(Warp),
    "lanes": lambda s: s.tile(m=2).to(Block).persistent().pipeline(3).tile(m=1).to(Group(Thread, 32)),
}  # fmt: skip


@attrs.frozen
class Case:
    """Hold a schedule, its kernel, and what comes out of a right one."""

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
        outputs = self.schedule.computed.outputs
        found = [compare(t.name, arrays[t.name], expected[t.name], t.dtype) for t in outputs]
        return "right" if all(x.passed for x in found) else "wrong"

    def all(self, wanted: Callable[[Statement], bool]) -> list[Statement]:
        found = [s for s in walk(self.kernel.body) if wanted(s)]
        assert found, "nothing to plant a mistake in"
        return found

    def with_(self, change: Callable[[Statement], tuple[Statement, ...]]) -> str:
        """Run the kernel with other statements in the place of some."""
        body = rewrite(self.kernel.body, change)
        assert body != self.kernel.body
        return self.outcome(attrs.evolve(self.kernel, body=body))

    def without(self, old: Statement) -> str:
        return self.with_(lambda s: () if s is old else (s,))


def scheduled(way: str) -> Case:
    x, gain = Matrix(17, WIDTH, "f32"), Vector(WIDTH, "f32", name="gain")
    chain = WAYS[way](rows.rms_norm(x, gain)).load("x", SH, cp_async()).load("gain", SH, cp_async())
    schedule = chain.load("x", RF, vector()).epilog(memory=RF).done()
    return Case(schedule, schedule.lowered())


@pytest.fixture(params=WAYS)
def case(request: pytest.FixtureRequest) -> Case:
    return scheduled(request.param)


def tiles(case: Case) -> For:
    """Find the loop over tiles."""
    (loop,) = case.all(lambda s: isinstance(s, For) and s.kind in ("items", "tiles"))
    assert isinstance(loop, For)
    return loop


def copies(case: Case, name: str) -> list[Statement]:
    return case.all(
        lambda s: isinstance(s, Call) and s.atom.completion == "cp.async" and s.views[1].buffer.name == name
    )


def test_right_and_loaded_once(case: Case) -> None:
    """What is read for every row is copied ahead of the loop."""
    assert case.outcome(case.kernel) == "right"
    inside = list(walk(tiles(case).body))
    assert all(s not in inside for s in copies(case, "gain_sh"))
    assert any(s in inside for s in copies(case, "x_sh"))


def test_a_dropped_copy(case: Case) -> None:
    for name in ("x_sh", "gain_sh"):
        for copy in copies(case, name):
            assert case.without(copy) in ("uninitialised-read", "wrong")


def test_a_dropped_commit_or_wait(case: Case) -> None:
    for s in case.all(lambda s: isinstance(s, Commit | Wait)):
        assert case.without(s) == "not-arrived"


def test_a_group_too_many_in_flight(case: Case) -> None:
    (wait,) = case.all(lambda s: isinstance(s, Wait))
    assert isinstance(wait, Wait)
    more = attrs.evolve(wait, pending=wait.pending + 1)
    assert case.with_(lambda s: (more,) if s is wait else (s,)) == "not-arrived"


def in_one_slot(case: Case, name: str) -> str:
    """Run a kernel in which all trips use the slot of the first."""
    trip = tiles(case).var

    def moved(view: View) -> View:
        if view.buffer.name != name:
            return view
        ringed = attrs.evolve(view, offset=substitute(view.offset, {trip: as_expr(0)}))
        return attrs.evolve(ringed, slot=None)

    def change(s: Statement) -> tuple[Statement, ...]:
        match s:
            case Call():
                return (attrs.evolve(s, views=tuple(moved(v) for v in s.views)),)
            case Compute():
                return (attrs.evolve(s, dst=moved(s.dst), inputs=tuple(moved(v) for v in s.inputs)),)
            case _:
                return (s,)

    return case.with_(change)


@pytest.mark.parametrize("case", ["warps", "loop"], indirect=True)
def test_staging_in_one_slot(case: Case) -> None:
    """The next trip's states then overwrite what other warps still read."""
    assert in_one_slot(case, "mean_sum_sh") == "race"


@pytest.mark.parametrize("case", ["cluster"], indirect=True)
def test_of_a_cluster(case: Case) -> None:
    """States of the next row would reach a block that still reads those of this row."""
    assert in_one_slot(case, "mean_sum_cluster") in ("race", "not-arrived")


@pytest.mark.parametrize("case", ["one slot"], indirect=True)
def test_of_one_slot(case: Case) -> None:
    """The next row's load starts behind the last read of this row's, and not ahead of it."""
    loop, loads = tiles(case), copies(case, "x_sh")
    guarded, *_ = [s for s in walk(loop.body) if isinstance(s, If) and any(x in loads for x in walk(s.body))]
    rest = rewrite(loop.body, lambda s: () if s is guarded else (s,))
    count = sum(isinstance(s, Let) for s in rest)
    early = attrs.evolve(loop, body=(*rest[:count], guarded, *rest[count:]))
    assert case.with_(lambda s: (early,) if isinstance(s, For) and s.kind == loop.kind else (s,)) == "not-arrived"


@pytest.mark.parametrize("case", ["warps"], indirect=True)
def test_one_barrier_a_row(case: Case) -> None:
    assert len(case.all(lambda s: isinstance(s, Sync) and s.level == Block)) == 1


def test_golden(golden: Callable[..., None]) -> None:
    schedule = rows.row(rows.rms_norm(Matrix(4096, 32768, "bf16"), Vector(32768, "bf16", name="gain")), blocks=2)
    golden(schedule.cuda("sm_90a"), "kernel/rows_ahead.cu")


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_each_copy_is_lowered_once(monkeypatch: pytest.MonkeyPatch, stages: int) -> None:
    """The copies of the first tiles and those in the loop are one body, in which the tile's number is replaced."""
    lowered: list[str] = []
    whole = ahead.lower_copy

    def counted(link: Any, *rest: Any) -> Any:
        lowered.append(link.role)
        return whole(link, *rest)

    monkeypatch.setattr(ahead, "lower_copy", counted)
    spec = rows.rms_norm(Matrix(64, 512, "f16"), Vector(512, "f16", name="gain"))
    rows.row(spec, blocks=3, stages=stages).lowered("sm_90a")
    # A schedule is elaborated for its own architecture first, then for the one that is asked for.
    assert set(lowered) == {"gain", "x"}
    assert max(map(lowered.count, lowered)) <= 2
