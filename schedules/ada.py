"""Schedules for sm_89: those of Ampere, and 8-bit floats."""

from __future__ import annotations

from fireiron import MatMulChain, Op, Schedule, Strategy, preset, space
from fireiron.schedules import ampere
from fireiron.schedules._tensor_cores import points_of

DTYPE = "f16"  # default element type on the command line


@preset
@space(
    "sm_89",
    points_of(ampere.sizes),
    m=(64, 128, 256),
    n=(64, 128, 256),
    warp=((32, 32), (32, 64), (64, 32), (64, 64)),
    stages=(2, 3, 4, 5),
    ways=(1, 2),
    split_k=(1, 2, 4, 8),
)
def gemm(
    spec: MatMulChain,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    warp: tuple[int, int] | None = None,
    stages: int | None = None,
    store: Strategy | None = None,
    ops: tuple[Op, ...] = (),
    ways: int = 1,
    split_k: int = 1,
    stream: int = 0,
) -> Schedule:
    """Schedule a product for tensor cores as `ampere.gemm` does, of e4m3 and e5m2 too, in all layouts.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K; powers of two, a chunk of 32 bytes or more.
        warp: rows and columns of a warp's tile.
        stages: number of ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        store: strategy that stores the result; by default whole lines through shared memory.
        ops: pointwise functions of the accumulator, applied in order.
        ways: number of groups of warps that each compute another chunk of K at the same time: 1, 2, 4 or 8.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.
        stream: number of blocks on each SM that take equal shares of the chunks of K of all tiles (stream-K), for
            products whose tiles fill waves badly; 0 where blocks take whole tiles.
    """
    return ampere.gemm(spec, m, n, k, warp, stages, store=store, ops=ops, ways=ways, split_k=split_k, stream=stream)
