"""Schedules for sm_89: those of Ampere, and 8-bit floats."""

from __future__ import annotations

from fireiron import MatMulChain, Op, Schedule, Strategy, preset, space
from fireiron.schedules import ampere
from fireiron.schedules._tensor_cores import points_of

DTYPE = "f16"  # of the command line's products where it says none


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
) -> Schedule:
    """Schedule a product for tensor cores as `ampere.gemm` does, of e4m3 and e5m2 too, in all layouts.

    Args:
        m, n, k: tile of a block, chunk of K; powers of two, a chunk 32 bytes or more.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        store: how the result goes to C, whole lines by way of shared memory.
        ops: pointwise functions of the accumulator, first to last.
        ways: as many groups of warps take a chunk of K each at once, 1, 2, 4 or 8.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
    """
    return ampere.gemm(spec, m, n, k, warp, stages, store=store, ops=ops, ways=ways, split_k=split_k)
