"""Run one size of every preset on the GPU, for compute-sanitizer.

Call it as `compute-sanitizer --tool racecheck python tests/gpu/one_size.py`.
"""

from __future__ import annotations

import numpy as np
from compiling import compiled
from verified import verified

from fireiron import matmul
from fireiron.jit.driver import driver
from fireiron.schedules import ampere, hopper, simt, turing, volta
from fireiron.schedules.hopper import Plan

PRESETS = (simt.listing1, simt.listing2, simt.listing4, simt.sgemm)
PLANS = (
    Plan(128, 256),
    Plan(128, 128, cluster=(2, 1)),
    Plan(64, 64, 1, cluster=(2, 2)),
    Plan(128, 192, pingpong=True, cluster=(2, 1)),
    Plan(128, 192, pingpong=True, swapped=True),
    Plan(192, 128, 3),
    Plan(256, 128, swapped=True),
)


def hopper_presets() -> None:
    """Run each kind of plan on tiles that the sizes cut, with more of them than a ring has slots."""
    cases = [("bf16", None, plan) for plan in PLANS]
    cases += [("f16", "f32", PLANS[0]), ("e4m3", None, PLANS[0]), ("i8", None, PLANS[3]), ("tf32", None, PLANS[1])]
    for dtype, out, plan in cases:
        schedule = hopper.gemm(matmul(520, 400, 592, dtype, out=out, layout="TN"), plan)
        verified(schedule, kinds=("exact",))
        print("hopper.gemm", dtype, out or "", plan, "right")


def main() -> None:
    """Run, and compare with NumPy."""
    rng = np.random.default_rng(0)
    for preset in PRESETS:
        verified(preset(matmul(130, 140, 40)), kinds=("exact",))
        print(preset.__name__, "right")
    spec = matmul(130, 140, 40, "f16")
    verified(ampere.gemm(spec), kinds=("exact",))
    print("ampere.gemm right")
    verified(ampere.gemm(spec, m=64, n=64, warp=(32, 32), ways=2, split_k=2), kinds=("exact",))
    print("ampere.gemm with split K right")
    verified(volta.gemm(spec), kinds=("exact",))
    print("volta.gemm right")
    for preset in (ampere.gemm, turing.gemm):
        x, y = rng.integers(0, 2, (2, 130, 520)).astype(bool)
        c = compiled(preset(matmul(130, 130, 520, "b1", layout="TN")))(x, y)
        assert np.array_equal(c, (x[:, None] ^ y).sum(-1))
        print(preset.__module__, "right")
    if driver().compute_capability(0) == 90:
        hopper_presets()


if __name__ == "__main__":
    main()
