"""Products in flight: what the pass derives for A in registers, and that it asks for no more than is needed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Warp, Warpgroup, matmul, tensor, tma
from fireiron.jit.disassemble import disassemble
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Commit, Fence, Statement, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import attention, attention_gradients, hopper
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


def written_in_flight(sass: str) -> list[str]:
    """List the instructions that write a register of A, between a product that reads it and the wait for all."""
    found: list[str] = []
    read: set[int] = set()
    for line in sass.splitlines():
        product = re.search(r"HGMMA\.\S+ R\d+, R(\d+), gdesc", line)
        result = re.search(r"\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]+) R(\d+)", line)
        if product is not None:
            read |= set(range(int(product[1]), int(product[1]) + 4))
        elif "WARPGROUP.DEPBAR.LE gsb0, 0x0" in line:
            read = set()
        elif result is not None and int(result[2]) in read and not result[1].startswith(("HGMMA", "ST", "RED", "ATOM")):
            found.append(line)
    return found


def test_a_write_in_flight_is_found() -> None:
    product = "/*0010*/ HGMMA.64x64x16.F32.BF16 R24, R88, gdesc[UR4], R24, gsb0 ;\n"
    write, wait = "/*0020*/ FFMA R90, R1, R2, R3 ;\n", "/*0030*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    assert len(written_in_flight(product + write + wait)) == 1
    assert written_in_flight(product + wait + write) == []


@pytest.mark.parametrize("slack", [0.0, 24.0])
@pytest.mark.parametrize(("depth", "causal"), [(64, False), (128, True), (256, False)])
def test_no_register_is_written_that_products_still_read(depth: int, causal: bool, slack: float) -> None:
    """Behind a branch the assembler gives A's registers to others while products in flight read them.

    On an H200 attention gave NaN for it; no simulation can see it.
    """
    q, k, v = (tensor(32, 12, 384, depth, dtype="bf16") for _ in range(3))
    schedule = attention.wgmma(attention.attention(q, k, v, causal=causal), slack=slack, speculate=slack > 0)
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("function", ["of_queries", "of_keys"])
def test_gradients_write_no_register_that_products_still_read(function: str, depth: int) -> None:
    four = [tensor(4, 4, 512, depth, dtype="bf16") for _ in range(4)]
    rows = [tensor(4, 4, 512, dtype="f32") for _ in range(2)]
    schedule = attention_gradients.wgmma(getattr(attention_gradients, function)(*four, *rows))
    assert written_in_flight(disassemble(schedule.compile("sm_90a").cubin)) == []
