"""Run one size of every preset on the GPU, for compute-sanitizer.

Call it as `compute-sanitizer --tool racecheck python tests/gpu/one_size.py`.
"""

from __future__ import annotations

import numpy as np

from fireiron import matmul
from fireiron.schedules import ampere, simt, turing, volta

PRESETS = (simt.listing1, simt.listing2, simt.listing4, simt.sgemm)


def main() -> None:
    """Run, and compare with NumPy."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((130, 40)).astype("f4")
    b = rng.standard_normal((40, 140)).astype("f4")
    for preset in PRESETS:
        c = preset(matmul(130, 140, 40)).compile()(a, b)
        assert np.abs(c - a.astype("f8") @ b).max() < 1e-4
        print(preset.__name__, "right")
    c = ampere.gemm(matmul(130, 140, 40, "f16")).compile()(a.astype("f2"), b.astype("f2"))
    assert np.abs(c - a.astype("f2").astype("f8") @ b.astype("f2")).max() < 2e-2
    print("ampere.gemm right")
    c = ampere.gemm(matmul(130, 140, 40, "f16"), m=64, n=64, warp=(32, 32), ways=2, split_k=2).compile()(
        a.astype("f2"), b.astype("f2")
    )
    assert np.abs(c - a.astype("f2").astype("f8") @ b.astype("f2")).max() < 2e-2
    print("ampere.gemm with split K right")
    c = volta.gemm(matmul(130, 140, 40, "f16")).compile()(a.astype("f2"), b.astype("f2"))
    assert np.abs(c - a.astype("f2").astype("f8") @ b.astype("f2")).max() < 2e-2
    print("volta.gemm right")
    for preset in (ampere.gemm, turing.gemm):
        x, y = rng.integers(0, 2, (2, 130, 520)).astype(bool)
        c = preset(matmul(130, 130, 520, "b1", layout="TN")).compile()(x, y)
        assert np.array_equal(c, (x[:, None] ^ y).sum(-1))
        print(preset.__module__, "right")


if __name__ == "__main__":
    main()
