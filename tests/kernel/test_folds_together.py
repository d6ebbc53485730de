"""Folds that do not read each other: their parts meet at the same barriers."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron import Matrix, Schedule, Vector
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Sync, walk
from fireiron.language.levels import Block, Cluster
from fireiron.schedules import rows
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays
from fireiron.verify.verification import Data, verify


@fi.program(x="m n", y="m n")
def statistics(x: Any, y: Any) -> Any:
    """Fold twice, read one of both folds, and fold once more."""
    high, total = fi.max(x, "n"), fi.sum(x * y, "n")
    return high, total, fi.sum(fi.exp(x - high), "n"), y * total


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def backward(m: int, n: int, **plan: Any) -> Schedule:
    x, dy = Matrix(m, n, "f16"), Matrix(m, n, "f16", name="dy")
    return rows.row(rows.layernorm_backward(x, dy, Vector(n, "f16", name="gain")), **plan)


def barriers(schedule: Schedule) -> list[Sync]:
    return [s for s in walk(schedule.lowered("sm_90a").body) if isinstance(s, Sync) and s.level in (Block, Cluster)]


@pytest.mark.parametrize(
    "plan",
    [{"warps": 2, "blocks": 1}, {"warps": 2, "blocks": 2}, {"warps": 2, "blocks": 2, "at_once": True}, {"stages": 2}],
)
def test_rows_are_right(plan: dict[str, Any]) -> None:
    right(backward(3, 2104, **plan))
    right(rows.row(statistics(Matrix(3, 1000, "f16"), Matrix(3, 1000, "f16", name="y")), **plan))


def test_in_chunks() -> None:
    """A loop over chunks folds both; behind it they meet."""
    spec = statistics(Matrix(3, 900, "f16"), Matrix(3, 900, "f16", name="y"))
    chain = spec.tile(m=1).to(Block).split(n=256).split("n", ways=2).parallel(fi.Warp)
    schedule = chain.load("x", fi.RF, fi.vector()).load("y", fi.RF, fi.vector()).done()
    assert len(barriers(schedule)) == 2
    right(schedule)


def test_two_barriers_for_four_folds() -> None:
    """The sums of x and of dy * gain share one barrier, and so do the two sums that read the mean.

    Blocks of a cluster send each other their sums, which mbarriers count: the cluster has a barrier before the first
    sends alone.
    """
    assert [s.level for s in barriers(backward(4096, 8192, blocks=1, stages=1))] == [Block] * 2
    assert [s.level for s in barriers(backward(4096, 8192, blocks=2, stages=1))] == [Cluster, Block, Block]
    assert [s.level for s in barriers(backward(4096, 8192, blocks=2, stages=1, at_once=True))] == [Cluster]


@pytest.mark.parametrize("which", range(3))
def test_each_of_them_is_needed(which: int) -> None:
    schedule = backward(3, 2104, warps=2, blocks=1, stages=1)
    kernel, left = schedule.lowered(), barriers(schedule)[which]
    bare = attrs.evolve(kernel, body=rewrite(kernel.body, lambda s: () if s == left else s))
    with pytest.raises(SimulationError):
        simulate(bare, random_arrays(Interface.of(bare), {}))
