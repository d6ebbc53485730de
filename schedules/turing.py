"""Schedules for sm_75, whose tensor cores take smaller shapes, and which has no asynchronous copies."""

from __future__ import annotations

from fireiron import MatMulChain, Op, Schedule, Strategy, preset, space
from fireiron.schedules import _tensor_cores
from fireiron.schedules._tensor_cores import Sizes, points_of

DTYPE = "f16"  # of the command line's products where it says none


@preset
def sizes(spec: MatMulChain) -> Sizes:
    """Give what suits the element type."""
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

    Element types f16, i8 and u8 in all layouts; i4, u4 and b1 with K contiguous, layout TN.

    Args:
        m, n, k: tile of a block, chunk of K; powers of two, a chunk 32 bytes or more.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are on their way.
        store: how the result goes to C, whole lines by way of shared memory.
        ops: pointwise functions of the accumulator, first to last.
        ways: as many groups of warps take a chunk of K each at once, 1, 2, 4 or 8.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
    """
    kind = spec.left.dtype
    rows = 16 if kind.kind == "float" else 8
    chosen = sizes(spec).shared_by(ways).given(m=m, n=n, k=k, warp=warp, stages=stages)
    atom = (rows, 8, kind.count_in(16))
    return _tensor_cores.gemm(spec, chosen, atom, False, None, store, ops=ops, ways=ways, split_k=split_k)
