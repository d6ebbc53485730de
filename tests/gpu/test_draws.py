"""Persistent blocks that draw their tiles: every launch computes each tile once, and leaves the counter at 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, Thread, drawn, matmul
from fireiron.jit.driver import driver
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from tests.mutate.cases import drawing


def of_cores() -> Any:
    chain = matmul(1000, 900, 40).tile(32, 32).to(Block).persistent(share=drawn()).epilog(memory=RF).split(8)
    chain = chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def of_copies() -> Any:
    return drawing(hopper.gemm(matmul(1000, 1016, 528, "tf32", layout="NN"), Plan(64, 64, 1, transposed="shared")))


@pytest.mark.parametrize("make", [of_cores, of_copies])
def test_every_launch_computes_each_tile_once(gpu: int, make: Any) -> None:
    torch = pytest.importorskip("torch")
    if make is of_copies and driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    schedule = make()
    spec = schedule.program.spec
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, t.shape).astype(np.float32) for t in (spec.A, spec.B))
    kernel = schedule.compile()
    out = torch.empty(a.shape[0], b.shape[1], device="cuda")
    given = [torch.from_numpy(x).cuda() for x in (a, b)]
    for _ in range(50):
        out.fill_(float("nan"))
        kernel(*given, out=out)
        assert np.array_equal(out.cpu().numpy(), a @ b)
