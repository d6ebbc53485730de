"""Barriers and waits that another one makes needless are not there; what the rest guards is left out to see it fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fireiron import FR, SH, A, B, Block, Warp, Warpgroup, matmul, stmatrix, through_shared, tma
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import without
from fireiron.kernel.ir.statements import For, Kernel, Statement, Sync, Wait, walk
from fireiron.schedules import fused, hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def syncs(kernel: Kernel, reason: str) -> list[Sync]:
    return [s for s in walk(kernel.body) if isinstance(s, Sync) and reason in s.reason]


def waits(kernel: Kernel) -> int:
    """Count waits for what bulk stores read, before the last of the kernel."""
    return sum(1 for s in walk(kernel.body) if isinstance(s, Wait) and s.reads_only) - 1


def clean(kernel: Kernel) -> None:
    simulate(kernel, random_arrays(Interface.of(kernel), {}))


def test_no_barrier_ahead_of_a_loop_over_layers() -> None:
    """The inner loop begins with a barrier, in every trip of the outer one."""
    kernel = fused.mlp(64, 64, 3, path="ampere").lowered("sm_80")
    clean(kernel)
    (layers,) = [s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == "layer"]
    assert any(isinstance(s, Sync) for s in walk(layers.body))
    assert len(syncs(kernel, "")) == len([s for s in walk(layers.body) if isinstance(s, Sync)])


def test_the_first_store_of_a_trip_waits_for_all() -> None:
    """Each output has a staging buffer; one wait and one barrier free both."""
    kernel = fused.lstm_cell(72, 40, 48, path="hopper").lowered("sm_90a")
    clean(kernel)
    assert waits(kernel) == 1
    assert len(syncs(kernel, "is read before it is overwritten")) == 1


def staged(n: int, ring: int, persistent: bool) -> Kernel:
    store = through_shared(stmatrix(), tma(128), panel=(64, 64), at=Warpgroup, ring=ring)
    tiled = matmul(64, n, 64, "f16", layout="TN", arch="sm_90").tile(64, n).to(Block)
    chain = (tiled.persistent() if persistent else tiled).epilog(memory=FR, store=store).split(64).specialize()
    chain = chain.load(A, SH, tma()).load(B, SH, tma()).tile(64, n).to(Warpgroup)
    return chain.split(16).unroll().done().lowered()


@pytest.mark.parametrize(
    ("n", "ring", "persistent", "expected"),
    [(128, 2, False, 0), (128, 2, True, 1), (256, 2, False, 1), (64, 1, False, 0)],
)
def test_slots_that_nobody_used_are_not_awaited(n: int, ring: int, persistent: bool, expected: int) -> None:
    kernel = staged(n, ring, persistent)
    clean(kernel)
    assert waits(kernel) == expected
    assert len(syncs(kernel, "is read before it is overwritten")) == expected


def is_wait(s: Statement) -> bool:
    return isinstance(s, Wait) and s.reads_only


def is_free(s: Statement) -> bool:
    return isinstance(s, Sync) and "is read before it is overwritten" in s.reason


MADE: dict[str, Callable[[], Any]] = {
    "lstm_cell": lambda: fused.lstm_cell(200, 72, 48, path="hopper").lowered("sm_90a"),
    "ring": lambda: staged(256, 2, False),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dropped", [is_wait, is_free])
def test_the_waits_that_stay_are_needed(name: str, dropped: Callable[[Statement], bool]) -> None:
    kernel = MADE[name]()
    with pytest.raises(SimulationError):
        clean(attrs.evolve(kernel, body=without(kernel.body, dropped)))


def test_warps_meet_once_before_they_tell_what_they_read() -> None:
    """A store through shared memory has barriers of its own."""
    plan = Plan(m=128, n=64, stages=3, ways=2, through="cluster")
    kernel = hopper.split_k(matmul(128, 64, 512, "f16", layout="TN", arch="sm_90a"), plan).lowered()
    clean(kernel)
    assert not syncs(kernel, "the warp has read its part")


def test_a_block_without_roles_waits_for_its_bulk_stores() -> None:
    """Shared memory ends with the block: what a bulk store reads there must have been read."""
    store = through_shared(stmatrix(), tma(128), panel=(64, 64))
    chain = matmul(64, 64, 32, "f16", layout="TN", arch="sm_90").tile(64, 64).to(Block).epilog(memory=FR, store=store)
    chain = chain.split(32).load(A, SH).load(B, SH).tile(16, 64).to(Warp).split(16).unroll()
    kernel = chain.load(A, FR).load(B, FR).tile(16, 8).unroll().done().lowered()
    clean(kernel)
    with pytest.raises(SimulationError) as caught:
        clean(attrs.evolve(kernel, body=without(kernel.body, is_wait)))
    assert caught.value.code == "unfinished-flight"
