"""Schedules for sm_80 and later: tensor cores by mma.sync, and CUDA cores, with asynchronous copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fireiron import (
    ColMajor,
    FireironError,
    MatMulChain,
    Op,
    RowMajor,
    Rows,
    Save,
    Schedule,
    Strategy,
    Tiling,
    cp_async,
    preset,
    space,
)
from fireiron.schedules import _tensor_cores, simt
from fireiron.schedules._tensor_cores import Sizes, points_of

DTYPE = "f16"  # default element type on the command line
DTYPES = {"dgemm": "f64", "gemm_tf32x3": "f32", "sgemm": "f32"}  # default element types of presets that take others
FEW_TILES = 132  # 32 tiles of 128x256 took 1.9 times as long as 64 of 128x128 on an H200, 512 of them 0.94 times
CHUNK_NBYTES = 64  # bytes of a chunk along K, which four lanes copy by 16 bytes
STEP_NBYTES = 32  # bytes along K of an ldmatrix, and of the widest mma


@preset
def sizes(spec: MatMulChain) -> Sizes:
    """Choose sizes for the element type that fit 99 KiB, the least shared memory of these architectures.

    With 128 registers of sums, a thread has registers left for two slots of fragments and for little else. So tiles are
    half as wide in these cases: loads convert, further tensors are stored, ops run on partial tiles, lines are copied
    in pieces, or mma is emulated (8-bit floats; 4-bit integers and bits from sm_90 on).
    """
    kind = spec.left.dtype
    step = kind.count_in(STEP_NBYTES)
    if kind.bits == 64:
        return Sizes(128, 64, kind.count_in(2 * CHUNK_NBYTES), (64, 32), 3, step)
    converted = (spec.left.dtype, spec.right.dtype) != (spec.matmul.A.dtype, spec.matmul.B.dtype)
    extents = dict(spec.matmul.sizes)
    cut = any(not isinstance(extents[dim], int) or extents[dim] % tile for dim, tile in (("M", 128), ("N", 256)))
    beside = any(isinstance(op, Save | Rows) for op in spec.matmul.ops) or (bool(spec.matmul.ops) and cut)
    pieces = not all(t.starts_lines_at(16) for t in (spec.matmul.A, spec.matmul.B))
    stood_in = kind.name in ("e4m3", "e5m2", "i4", "u4", "b1")
    if converted or beside or pieces or stood_in:
        return Sizes(128, 128, kind.count_in(CHUNK_NBYTES), (64, 32), 4, step)
    along_k = spec.matmul.A.order is RowMajor and spec.matmul.B.order is ColMajor
    if kind.bits == 32 and not along_k:  # padded lines
        return Sizes(128, 256, kind.count_in(CHUNK_NBYTES), (64, 64), 3, step)
    if kind.bits in (16, 32):  # longer chunks need fewer barriers: 7 % over four stages of half as much
        return Sizes(128, 256, kind.count_in(2 * CHUNK_NBYTES), (64, 64), 2, step)
    return Sizes(128, 256, kind.count_in(CHUNK_NBYTES), (64, 64), 4, step)


@preset
@space(
    "sm_80",
    points_of(sizes),
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
    step: int | None = None,
    slots: int | None = None,
    ring: int | None = None,
    fragments: Strategy | None = None,
    store: Strategy | None = None,
    ops: tuple[Op, ...] = (),
    ways: int = 1,
    split_k: int = 1,
    stream: int = 0,
) -> Schedule:
    """Schedule a product for tensor cores: asynchronous copies, ldmatrix, mma.sync.

    Element types are f16, bf16, tf32, i8, u8 and f64, in all layouts; i4, u4 and b1 with K contiguous, layout TN. Sizes
    that are not given depend on the element type.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K; powers of two, a chunk of 32 bytes or more.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        step: K of a fragment; by default that of an mma.
        slots: number of slots of fragments; with 2, they are loaded during the step before, also across ends of chunks.
        ring: number of chunks in a trip of the main loop.
        fragments: strategy that loads fragments; by default ldmatrix() where it can.
        store: strategy that stores the result; by default whole lines through shared memory; conform() stores each
            thread's own elements.
        ops: pointwise functions of the accumulator, applied in order.
        ways: number of groups of warps that each compute another chunk of K at the same time: 1, 2, 4 or 8. Their
            chunks are loaded together, so fewer stages and smaller tiles are better.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.
        stream: number of blocks on each SM that take equal shares of the chunks of K of all tiles (stream-K), for
            products whose tiles fill waves badly; 0 where blocks take whole tiles.
    """
    usual = sizes(spec).shared_by(ways)
    chosen = usual.given(m=m, n=n, k=k, warp=warp, stages=stages, step=step, slots=slots, ring=ring)
    return _tensor_cores.gemm(
        spec, chosen, (16, 8, chosen.step), True, fragments, store, ops=ops, ways=ways, split_k=split_k, stream=stream
    )


WHOLE = {"M": 128, "N": 128, "K": 16}  # tile and chunk of `simt.sgemm`; sizes that they divide need no guards
AT_ONCE = 2 * 132  # such tiles that an H200 computes at once
FULL = 0.9  # share of a wave's places that have tiles
REGISTERS = 128  # registers of a thread with 8x8 sums, if the compiler must leave room for other blocks


def _sgemm_tiling(spec: MatMulChain, keywords: Mapping[str, Any]) -> Tiling | None:
    """Describe a point of `sgemm` to the quick model of tiles; None for types that tensor cores multiply.

    The result is None also for sizes that tiles of `simt.sgemm` divide, where these fill their waves: its copies
    through registers then have no guards, and the compiler places them between the products (at 2048 and 4096, 0.92 to
    0.98 of torch's speed on an H200; `sgemm` here at most 0.95).
    """
    if spec.left.dtype.name not in ("f32", "i32") or _fill_waves(spec):
        return None
    known = {name: value for name, value in keywords.items() if value is not None}
    block, warp = (known.get("m", 128), known.get("n", 128)), known.get("warp", (64, 32))
    split_k, stream = known.get("split_k", 1), known.get("stream", 0)
    if split_k > 1 and stream:
        return None
    return Tiling(
        block,
        known.get("k", 16),
        warp,
        1,
        simt.SCHEDULER_LANES,
        known.get("stages", 4),
        split_k=split_k,
        thread=_part_of(warp),
        resident=_resident(block, warp),
        stream=stream,
        pieces=_pieces(spec),
    )


def _fill_waves(spec: MatMulChain) -> bool:
    """Say whether tiles of `simt.sgemm` divide the sizes and fill the waves of an H200."""
    extents = dict(spec.matmul.sizes)
    if any(not isinstance(extents[dim], int) or extents[dim] % span for dim, span in WHOLE.items()):
        return False
    tiles = extents["M"] // WHOLE["M"] * (extents["N"] // WHOLE["N"])
    return tiles >= FULL * AT_ONCE * -(-tiles // AT_ONCE)


def _pieces(spec: MatMulChain) -> float:
    """Count the copies for each 16 bytes that `sgemm` copies: one, or one for each element that is transposed."""
    a, b = spec.matmul.A, spec.matmul.B
    elements = 16 // a.dtype.nbytes
    vectors = a.order is ColMajor and a.aligned(elements), b.order is RowMajor and b.aligned(elements)
    return sum(1 if whole else elements for whole in vectors) / 2


def _part_of(warp: tuple[int, int]) -> tuple[int, int]:
    """Divide a warp's tile among 8x4 lanes if it is higher than wide, else among 4x8."""
    rows, cols = warp
    return (rows // 8, cols // 4) if rows > cols else (rows // 4, cols // 8)


def _resident(block: tuple[int, int], warp: tuple[int, int]) -> int:
    """Return the number of blocks, with REGISTERS for each thread, that fit an SM; 0 where sums alone need more."""
    (m, n), (rows, cols) = block, warp
    threads = 32 * -(-m // rows) * -(-n // cols)
    return 65536 // (threads * REGISTERS) if rows * cols <= 32 * 64 else 0


@preset
@space(
    "sm_80",
    _sgemm_tiling,
    1,
    m=(64, 128),
    n=(64, 128),
    warp=((32, 32), (32, 64), (64, 32)),
    split_k=(1, 2, 3, 4, 6, 8),
    stream=(0, 1, 2, 3, 4, 8),
)
def sgemm(
    spec: MatMulChain,
    m: int = 128,
    n: int = 128,
    k: int = 16,
    warp: tuple[int, int] = (64, 32),
    stages: int = 4,
    pad: int = 4,
    group: int = 8,
    split_k: int = 1,
    stream: int = 0,
    ops: tuple[Op, ...] = (),
) -> Schedule:
    """Schedule a product for CUDA cores as `simt.sgemm` does, by asynchronous copies, for elements of 4 bytes and more.

    Operands whose K is contiguous are transposed by the copies, element by element.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K.
        warp: rows and columns of a warp's tile; a thread has 8x8, 8x4 or 16x8 elements of it.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        pad: elements added to the leading strides of the shared buffers.
        group: number of rows of tiles that blocks visit together, so that operands are found in the L2 cache.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.
        stream: number of blocks on each SM that take equal shares of the chunks of K of all tiles (stream-K), for
            products whose tiles fill waves badly; 0 where blocks take whole tiles.
        ops: pointwise functions of the accumulator, applied in order.
    """
    depth = dict(spec.matmul.sizes)["K"]
    single = isinstance(depth, int) and depth <= k * split_k  # all of whose loads move ahead of all products
    return simt.sgemm(
        spec, m, n, k, warp, _part_of(warp), stages, pad=pad, group=group, split_k=split_k, ops=ops,
        copies=cp_async(), resident=0 if single else _resident((m, n), warp), stream=stream,
    )  # fmt: skip


def _dgemm_tiling(spec: MatMulChain, keywords: Mapping[str, Any]) -> Tiling | None:
    """Describe a point of `dgemm` to the quick model of tiles; None for other types, or fewer than 4 warps."""
    known = {name: value for name, value in keywords.items() if value is not None}
    block, warp = (known.get("m", 64), known.get("n", 64)), known.get("warp", (32, 32))
    split_k, stream, step = known.get("split_k", 1), known.get("stream", 0), known.get("step", 8)
    warps = block[0] * block[1] // (warp[0] * warp[1])
    if spec.left.dtype.name != "f64" or not 4 <= warps <= 8 or (split_k > 1 and stream):
        return None
    return Tiling(
        block,
        known.get("k", 16),
        warp,
        step,
        _tensor_cores.SCHEDULER / 64,
        known.get("stages", 4),
        2,
        split_k=split_k,
        stream=stream,
        pad=4,
    )


@preset
@space(
    "sm_80",
    _dgemm_tiling,
    1,
    m=(32, 64, 128),
    n=(32, 64, 128),
    warp=((16, 16), (16, 32), (32, 16), (32, 32), (64, 32)),
    step=(4, 8),
    split_k=(1, 2, 4, 8),
    stream=(0, 2, 3),
)
def dgemm(
    spec: MatMulChain,
    m: int = 64,
    n: int = 64,
    k: int = 16,
    warp: tuple[int, int] = (32, 32),
    stages: int = 4,
    step: int = 8,
    split_k: int = 1,
    stream: int = 0,
    store: Strategy | None = None,
    ops: tuple[Op, ...] = (),
) -> Schedule:
    """Schedule a product of f64 for tensor cores, as `gemm` does, with tiles for few waves.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K; powers of two.
        warp: rows and columns of a warp's tile.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        step: K of a fragment and of an mma: 4, 8 or 16, of which sm_80 makes several smaller ones.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.
        stream: number of blocks on each SM that take equal shares of the chunks of K of all tiles (stream-K), for
            products whose tiles fill waves badly; 0 where blocks take whole tiles.
        store: strategy that stores the result; by default whole lines through shared memory.
        ops: pointwise functions of the accumulator, applied in order.
    """
    return gemm(spec, m, n, k, warp, stages, step, store=store, ops=ops, split_k=split_k, stream=stream)


@preset
def gemm_tf32x3(
    spec: MatMulChain,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    warp: tuple[int, int] | None = None,
    stages: int | None = None,
    split_k: int = 1,
) -> Schedule:
    """Schedule a product of f32 for tensor cores, by three products of tf32 for each product of f32 (3xTF32).

    The result is not that of IEEE f32 arithmetic, so neither `best` nor another preset chooses this one. With u =
    2^-24, the error of an element of C is at most (20 + 6 ceil(K / 8)) u times the element of |A| |B|; for f32 sums the
    bound is K u. The first term is the loss of each product's parts (5 * 2^-22); the second is the rounding of three
    sums for each 8 of K, which tensor cores cut. Infinities, and numbers from 2^128 (1 - 2^-12) on, which tf32 rounds
    to infinity, give NaN.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K; powers of two, a chunk of 8 or more.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.

    Raises:
        FireironError: `preset-type` where A and B are not f32.

    Source: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
        theoretical peak performance", 2022.
    """
    if spec.left.dtype.name != "f32" or spec.right.dtype.name != "f32":
        raise FireironError(
            "preset-type",
            f"ampere.gemm_tf32x3 multiplies f32 by products of its parts, not {spec.left.dtype} and {spec.right.dtype}",
            fix="use ampere.gemm, or hopper.gemm, for types that tensor cores multiply themselves",
        )
    along_k = spec.matmul.A.order is RowMajor and spec.matmul.B.order is ColMajor
    extents = dict(spec.matmul.sizes)
    rows, cols = extents["M"], extents["N"]
    few = isinstance(rows, int) and isinstance(cols, int) and rows * cols < FEW_TILES * 128 * 256
    usual = Sizes(128, 256, 16, (64, 64), 3, 8) if along_k and not few else Sizes(128, 128, 16, (64, 32), 4, 8)
    chosen = usual.given(m=m, n=n, k=k, warp=warp, stages=stages)
    return _tensor_cores.gemm(spec, chosen, (16, 8, 8), split_k=split_k, family="tf32x3.m16n8k8")
