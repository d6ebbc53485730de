"""Schedules for sm_89: those of Ampere, and 8-bit floats."""

from __future__ import annotations

from fireiron import MatMulChain
from fireiron.schedules import ampere


def gemm(
    spec: MatMulChain, m: int = 128, n: int = 128, warp: tuple[int, int] = (64, 32), stages: int = 4
) -> MatMulChain:
    """Schedule a product for tensor cores as `ampere.gemm` does, of e4m3 and e5m2 too, in all layouts.

    Args:
        m, n: tile of a block, powers of two.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
    """
    return ampere.gemm(spec, m, n, warp, stages)
