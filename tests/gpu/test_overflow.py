"""Integer sums beyond 32 bits on the GPU: every instruction wraps, as the simulator's meanings do."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import compiled

from fireiron import RF, SH, A, B, Block, Thread, matmul
from fireiron.jit.driver import driver
from fireiron.schedules import ampere, hopper, turing
from fireiron.schedules.hopper import Plan

DEPTH = 2**17 + 64  # of -128 * -128: the sum is 2^31 + 2^20


def cuda_cores(spec):
    chain = spec.tile(32, 32).to(Block).epilog(memory=RF).split(64).load(A, SH).load(B, SH).tile(4, 4).to(Thread)
    chain = chain.split(4).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


PATHS = {
    "ampere": ampere.gemm,
    "turing": turing.gemm,
    "hopper": lambda spec: hopper.gemm(spec, Plan(128, 128)),
    "hopper, split": lambda spec: hopper.gemm(spec, Plan(128, 128, ways=4)),
    "CUDA cores": cuda_cores,
}


@pytest.mark.parametrize("path", PATHS)
def test_sums_wrap(path):
    if path.startswith("hopper") and driver().compute_capability(0) // 10 != 9:
        pytest.skip("wgmma needs sm_90")
    a, b = np.full((128, DEPTH), -128, np.int8), np.full((128, DEPTH), -128, np.int8)
    b[::2] = 127
    total = np.array([-128 * 127 * DEPTH, 128 * 128 * DEPTH])[np.arange(128) % 2]
    got = compiled(PATHS[path](matmul(128, 128, DEPTH, "i8", layout="TN")))(a, b)
    np.testing.assert_array_equal(got, np.broadcast_to(total.astype(np.int32), (128, 128)))
