"""Warps of a cluster's blocks that send their states to all blocks for each fold of a row."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

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


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def barriers(schedule: Schedule) -> list[Sync]:
    return [s for s in walk(schedule.lowered("sm_90a").body) if isinstance(s, Sync) and s.level in (Block, Cluster)]


@pytest.mark.parametrize(("m", "n", "blocks", "warps"), [(3, 5000, 2, 4), (2, 3000, 4, 3), (5, 2048, 2, 1)])
def test_rows_of_a_cluster(m: int, n: int, blocks: int, warps: int) -> None:
    gain, bias = Vector(n, "f16", name="gain"), Vector(n, "f16", name="bias")
    for program in (rows.softmax(Matrix(m, n, "f16")), rows.layernorm(Matrix(m, n, "f16"), gain, bias)):
        right(rows.row(program, blocks=blocks, warps=warps, at_once=True))


def test_no_barrier_of_the_block() -> None:
    """Two folds of a row have a barrier of the block each, without at_once; the first one is for the mbarriers."""
    program = rows.softmax(Matrix(4096, 65536, "bf16"), arch="sm_90a")
    assert [s.level for s in barriers(rows.row(program, blocks=4, warps=16))] == [Cluster, Block, Block]
    schedule = rows.row(program, blocks=4, warps=16, at_once=True)
    assert [s.level for s in barriers(schedule)] == [Cluster]
    assert not schedule.compile("sm_90a").resources.spills


def test_the_barrier_is_needed() -> None:
    schedule = rows.row(rows.softmax(Matrix(6, 4096, "f16")), blocks=2, warps=4, at_once=True)
    kernel, (left,) = schedule.lowered(), barriers(schedule)

    def without(s: Any) -> Any:
        return () if s == left else s

    bare = attrs.evolve(kernel, body=rewrite(kernel.body, without))
    with pytest.raises(SimulationError):
        simulate(bare, random_arrays(Interface.of(bare), {}))
