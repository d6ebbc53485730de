"""Warps of a cluster's blocks that meet at one barrier for each fold of a row."""

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


def test_one_barrier_a_fold() -> None:
    """Two folds of a row had a barrier of the block and one of the cluster each; the last one ends the kernel."""
    program = rows.softmax(Matrix(4096, 65536, "bf16"), arch="sm_90a")
    assert [s.level for s in barriers(rows.row(program, blocks=4, warps=16))] == [
        Block,
        Cluster,
        Block,
        Cluster,
        Cluster,
    ]
    schedule = rows.row(program, blocks=4, warps=16, at_once=True)
    assert [s.level for s in barriers(schedule)] == [Cluster] * 3
    assert not schedule.compile("sm_90a").resources.spills


@pytest.mark.parametrize("which", range(3))
def test_each_of_them_is_needed(which: int) -> None:
    schedule = rows.row(rows.softmax(Matrix(6, 4096, "f16")), blocks=2, warps=4, at_once=True)
    kernel, left = schedule.lowered(), barriers(schedule)[which]

    def without(s: Any) -> Any:
        return () if s == left else s

    bare = attrs.evolve(kernel, body=rewrite(kernel.body, without))
    with pytest.raises(SimulationError):
        simulate(bare, random_arrays(Interface.of(bare), {}))
