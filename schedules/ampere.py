"""Schedules for tensor cores by mma.sync: sm_80 and every later architecture, where they are the portable path."""

from __future__ import annotations

from fireiron import MatMulChain
from fireiron.schedules import _tensor_cores


def gemm(
    spec: MatMulChain,
    m: int = 128,
    n: int = 128,
    warp: tuple[int, int] = (64, 64),
    stages: int = 4,
    ways: int = 1,
    split_k: int = 1,
) -> MatMulChain:
    """Schedule a product for tensor cores: asynchronous copies, ldmatrix, mma.sync.

    Element types f16, bf16, tf32, i8, u8 and f64, in all layouts; i4, u4 and b1 with K contiguous, layout TN.

    Args:
        m, n: tile of a block, powers of two.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        ways: as many groups of warps take a part of each chunk of K, 1, 2, 4 or 8; chunks are longer by this, so that
            fewer stages may fit.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
    """
    kind = spec.left.dtype
    if kind.bits == 64:
        return _tensor_cores.gemm(spec, (m // 2, n // 2), (32, 32), min(stages, 3), (8, 8, 4), True, ways, split_k)
    return _tensor_cores.gemm(spec, (m, n), warp, stages, (16, 8, kind.count_in(32)), True, ways, split_k)
