"""Schedules for sm_75, whose tensor cores take smaller shapes, and which has no asynchronous copies."""

from __future__ import annotations

from fireiron import MatMulChain
from fireiron.schedules import _tensor_cores


def gemm(
    spec: MatMulChain,
    m: int = 128,
    n: int = 128,
    warp: tuple[int, int] = (64, 32),
    stages: int = 2,
    ways: int = 1,
    split_k: int = 1,
) -> MatMulChain:
    """Schedule a product for tensor cores: copies staged in registers, ldmatrix, mma.sync.

    Element types f16, i8 and u8 in all layouts; i4, u4 and b1 with K contiguous, layout TN.

    Args:
        m, n: tile of a block, powers of two.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are on their way.
        ways: as many groups of warps take a part of each chunk of K, 1, 2, 4 or 8; chunks are longer by this, so that
            fewer stages may fit.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
    """
    kind = spec.left.dtype
    rows = 16 if kind.kind == "float" else 8
    return _tensor_cores.gemm(spec, (m, n), warp, stages, (rows, 8, kind.count_in(16)), False, ways, split_k)
