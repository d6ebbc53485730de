"""Products in flight: what the pass derives for A in registers, and that it asks for no more than is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Warp, Warpgroup, matmul, tma
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Commit, Fence, Statement, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def held(slots: int) -> Any:
    """Give products whose A comes through that many fragments."""
    chain = matmul(128, 128, 256, "f16", layout="TN").tile(128, 128).to(Block).persistent().epilog(memory=FR)
    chain = chain.split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
    chain = chain.tile(64, 128).to(Warpgroup).split(16).unroll()
    chain = chain.pipeline(slots) if slots > 1 else chain
    return chain.load(A, FR, lambda move: move.tile(16, 16).to(Warp).done()).done()


def of(schedule: Any, kind: type[Statement]) -> list[Any]:
    return [s for s in walk(schedule.lowered().body) if isinstance(s, kind)]


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_fragment_is_not_filled_while_products_read_it(slots: int) -> None:
    kernel = held(slots).lowered()
    assert unordered(kernel) == ()
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays)
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    np.testing.assert_allclose(arrays["C"].astype(np.float64), expected, rtol=1e-2, atol=1e-2)


def test_a_fragment_for_each_step_lets_all_products_be_one_group() -> None:
    def inside(slots: int) -> int:
        return sum(isinstance(s, Wait) and s.group == "wgmma" for s in walk(held(slots).lowered().body))

    assert (inside(1), inside(4)) == (2, 1)


def test_operands_in_shared_memory_take_one_fence_and_one_commit_a_chunk() -> None:
    schedule = hopper.cooperative(matmul(512, 512, 1024, "bf16", layout="TN", arch="sm_90"), Plan(128, 128, 2))
    assert [f.reason for f in of(schedule, Fence) if f.kind == "registers"] == ["accumulators are registers"]
    assert [c.group for c in of(schedule, Commit)] == ["wgmma", "bulk"]
    # One group runs on while the next chunk is awaited; the last one ends behind the loop.
    assert [w.pending for w in of(schedule, Wait) if w.group == "wgmma"] == [1, 0]


def test_sums_that_are_added_to_others_are_held_behind_the_wait() -> None:
    plan = Plan(128, 128, 2, promote=True)
    schedule = hopper.gemm(matmul(512, 512, 1024, "e4m3", layout="TN", arch="sm_90"), plan)
    (wait,) = [w for w in of(schedule, Wait) if w.group == "wgmma"]
    assert wait.pending == 0
    assert wait.holds is not None
    assert wait.holds.name == "chunk"
