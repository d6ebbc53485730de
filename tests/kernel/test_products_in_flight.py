"""Products in flight: what the pass derives for A in registers, and that it asks for no more than is needed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Warp, Warpgroup, matmul, tensor, tma
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Commit, Fence, Statement, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import attention, hopper
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


def ptx(text: str) -> str:
    """Compile for Hopper down to PTX."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    options = [b"--gpu-architecture=sm_90a", b"--std=c++17"]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert int(code) == 0
    _, size = nvrtc.nvrtcGetPTXSize(program)
    made = b" " * size
    nvrtc.nvrtcGetPTX(program, made)
    return made.decode()


def written_in_flight(text: str) -> list[str]:
    """List the instructions that write a register of A, between a product that reads it and the wait for all."""
    found: list[str] = []
    read: set[str] = set()
    for line in map(str.strip, text.splitlines()):
        if "wgmma.mma_async" in line:
            operand = re.search(r"\}, *\{([^}]*)\}", line)
            read |= set() if operand is None else {r.strip() for r in operand[1].split(",")}
        elif "wgmma.wait_group.sync.aligned 0" in line:
            read = set()
        elif (made := re.match(r"(?:@!?%p\d+ )?[a-z][\w.]*\s+(%r\d+),", line)) and made[1] in read:
            found.append(line)
    return found


@pytest.mark.parametrize(("depth", "causal"), [(64, False), (128, True)])
def test_the_compiler_writes_no_register_that_products_still_read(depth: int, causal: bool) -> None:
    """The compiler takes the next chunk's A for the same variable as this one's, whose last use it sees at the product.

    On an H200 attention gave NaN; no simulation can see it, and the assembler warns only where no branch is between.
    """
    q, k, v = (tensor(32, 12, 384, depth, dtype="bf16") for _ in range(3))
    kernel = attention.wgmma(attention.attention(q, k, v, causal=causal))
    assert written_in_flight(ptx(kernel.cuda("sm_90a"))) == []
    text = "\n".join(line for line in kernel.cuda("sm_90a").splitlines() if "keep(part" not in line)
    assert written_in_flight(ptx(text)) != []
