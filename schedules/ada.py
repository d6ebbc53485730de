"""Schedules for sm_89: those of Ampere, and 8-bit floats."""

from __future__ import annotations

from fireiron import MatMulChain, Op, space
from fireiron.schedules import ampere


@space(
    "sm_89",
    m=(64, 128, 256),
    n=(64, 128, 256),
    warp=((32, 32), (32, 64), (64, 32), (64, 64)),
    stages=(2, 3, 4, 5),
    ways=(1, 2),
    split_k=(1, 2, 4, 8),
)
def gemm(
    spec: MatMulChain,
    m: int = 128,
    n: int = 128,
    warp: tuple[int, int] = (64, 32),
    stages: int = 4,
    ways: int = 1,
    split_k: int = 1,
    ops: tuple[Op, ...] = (),
) -> MatMulChain:
    """Schedule a product for tensor cores as `ampere.gemm` does, of e4m3 and e5m2 too, in all layouts.

    Args:
        m, n: tile of a block, powers of two.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        ways: as many groups of warps take a part of each chunk of K, 1, 2, 4 or 8; chunks are longer by this, so that
            fewer stages may fit.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
        ops: pointwise functions of the accumulator, first to last (`add(bias)`, `relu`).
    """
    return ampere.gemm(spec, m, n, warp, stages, ways, split_k, ops)
