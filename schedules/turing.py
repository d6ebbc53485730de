"""Schedules for sm_75, which has smaller tensor-core instructions and no asynchronous copies."""

from __future__ import annotations

from fireiron import MatMulChain, Op, Schedule, Strategy, preset, space
from fireiron.schedules import _tensor_cores
from fireiron.schedules._tensor_cores import Sizes, points_of

DTYPE = "f16"  # default element type on the command line


@preset
def sizes(spec: MatMulChain) -> Sizes:
    """Return sizes that suit the element type."""
    kind = spec.left.dtype
    return Sizes(128, 128, kind.count_in(64), (64, 32), 2, kind.count_in(32), slots=1)


@preset
@space(
    "sm_75",
    points_of(sizes, asynchronous=False),
    m=(64, 128, 256),
    n=(64, 128, 256),
    warp=((32, 32), (32, 64), (64, 32), (64, 64)),
    stages=(2, 3),
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
    """Schedule a product for tensor cores: copies staged in registers, ldmatrix, mma.sync.

    Element types are f16, i8 and u8, in all layouts; i4, u4 and b1 with K contiguous, layout TN.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K; powers of two, a chunk of 32 bytes or more.
        warp: rows and columns of a warp's tile.
        stages: number of ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        store: strategy that stores the result; by default whole lines through shared memory.
        ops: pointwise functions of the accumulator, applied in order.
        ways: number of groups of warps that each compute another chunk of K at the same time: 1, 2, 4 or 8.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.
    """
    kind = spec.left.dtype
    rows = 16 if kind.kind == "float" else 8
    chosen = sizes(spec).shared_by(ways).given(m=m, n=n, k=k, warp=warp, stages=stages)
    atom = (rows, 8, kind.count_in(16))
    return _tensor_cores.gemm(spec, chosen, atom, False, None, store, ops=ops, ways=ways, split_k=split_k)
