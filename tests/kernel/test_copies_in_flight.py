"""Copies in flight: where groups end and are awaited, for rings, short loops, and loads without a ring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Warp, cp_async, ldmatrix, matmul, vector
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Commit, For, Kernel, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def gemm(k: int, stages: int, second: Any = cp_async, chunk: int = 32) -> Any:
    """Load A by cp.async and B by another strategy; fragments of a chunk's steps come one by one."""
    chain = matmul(32, 32, k, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR).split(chunk)
    chain = chain.pipeline(stages) if stages > 1 else chain
    chain = chain.load(A, SH, cp_async()).pad(8).load(B, SH, second()).pad(8).tile(16, 16).to(Warp)
    return chain.split(16).unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()


def right(kernel: Kernel) -> bool:
    """Say whether a kernel's edges are ordered, and its result is right."""
    assert unordered(kernel) == ()
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays)
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    return np.allclose(arrays["C"].astype(np.float64), expected, rtol=1e-2, atol=1e-2)


def inside(kernel: Kernel) -> tuple[list[int], int]:
    """Give what the loop over chunks leaves pending, and how many groups it closes a trip."""
    loop = next(s for s in walk(kernel.body) if isinstance(s, For) and s.kind == "chunks" and not s.unroll)
    found = tuple(walk(loop.body))
    return [s.pending for s in found if isinstance(s, Wait)], sum(isinstance(s, Commit) for s in found)


@pytest.mark.parametrize("second", [cp_async, vector], ids=["both in flight", "one through registers"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_ring_leaves_the_newer_chunks_in_flight(stages: int, second: Any) -> None:
    kernel = gemm(256, stages, second).lowered()
    assert right(kernel)
    assert inside(kernel) == ([stages - 2], 1)


def test_a_ring_longer_than_its_loop_closes_empty_groups() -> None:
    """Two chunks in four slots: nothing starts in the loop, and each trip still awaits its own chunk alone."""
    kernel = gemm(64, 4).lowered()
    assert right(kernel)
    assert inside(kernel) == ([1], 1)


def test_loads_without_a_ring_are_one_group() -> None:
    kernel = gemm(128, 1).lowered()
    assert right(kernel)
    assert inside(kernel) == ([0], 1)
