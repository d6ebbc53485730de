"""Schedules for CUDA cores: the listings of the Fireiron paper, and a tuned SGEMM.

Source: Hagedorn et al., Fireiron, PACT 2020 (arXiv 2003.06324), Listings 1, 2 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fireiron import (
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    DType,
    Expr,
    Group,
    Grouped,
    MatMulChain,
    MoveChain,
    Op,
    RowMajor,
    Schedule,
    Serpentine,
    Strategy,
    Strided,
    Thread,
    Tiling,
    Warp,
    microkernel,
    preset,
    space,
    staged,
    stream_k,
)

# Floats that C does not have, by the names in the functions that convert them.
_NARROW = {"f16": "half", "bf16": "bf16", "tf32": "tf32", "e4m3": "e4m3", "e5m2": "e5m2"}


def _dot(dtype: DType, out: DType) -> microkernel:
    """Return the paper's microkernel dot.cu for an element type; narrower floats are added in f32."""
    total = "double" if dtype.name == "f64" else "int" if dtype.kind == "int" else "float"
    read = f"{_NARROW[dtype.name]}_to_float({{}})" if dtype.name in _NARROW else "{}"
    write = f"{total}_to_{_NARROW[out.name]}(sum)" if out.name in _NARROW else "sum"
    if out.kind == "int":  # like every store, this rounds and saturates
        write = {"double": "double_to_int(sum)", "float": "__float2int_rn(sum)"}.get(total, "sum")
        write = f"saturate_{out.name}({write})" if out.bits == 8 else write
    a, b = read.format("A[k * A_col]"), read.format("B[k * B_row]")
    return microkernel(
        f"{total} sum = 0;\nfor (int k = 0; k < K; ++k) sum = sum + {a} * {b};\nC[0] = {write};",
        numpy=_dot_in_numpy,
        name="dot",
    )


def _dot_in_numpy(a: Any, b: Any, c: Any) -> Any:
    """Multiply in the accumulator's type, and round once to the result's; integers saturate."""
    import numpy as np

    whole = np.int64 if a.dtype == np.int64 else np.int32  # 64 bits show which sums 32 do not hold
    wide = np.float64 if a.dtype == np.float64 else whole if a.dtype.kind in "iu" else np.float32
    total = a.astype(wide) @ b.astype(wide)
    if c.dtype.kind in "iu":
        limits = np.iinfo(c.dtype)
        total = np.clip(np.nan_to_num(np.rint(total.astype(np.float64))), limits.min, limits.max)
    return total.astype(c.dtype)


@preset
def listing1(spec: MatMulChain) -> Schedule:
    """Schedule as the paper's Listing 1: each thread computes one element by a dot-product microkernel."""
    dot = _dot(spec.matmul.A.dtype, spec.matmul.C.dtype)
    return spec.tile(16, 16, batch=spec.batch).to(Block).tile(1, 1).to(Thread).done(dot)


@preset
def listing2(spec: MatMulChain, m: int = 128, n: int = 128, k: int = 8) -> Schedule:
    """Schedule as the paper's Listing 2: tiles for blocks, warps and threads, through shared memory and registers."""
    return (
        spec.tile(m, n, batch=spec.batch)
        .to(Block)
        .epilog(memory=RF)
        .split(k)
        .load(A, SH)
        .load(B, SH)
        .tile(m // 2, n // 4)
        .to(Warp)
        .tile(m // 16, n // 16)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def _lanes_of_listing4(lane: Expr) -> Expr:
    """Permute lanes as in the paper, so that rows and columns of a quarter-warp lie in different banks."""
    return ((lane >> 1) & 7) | (lane & 0x30) | ((lane & 1) << 3)


@preset
def listing4(spec: MatMulChain) -> Schedule:
    """Schedule as the paper's Listing 4, its kernel tuned for Maxwell: strided tiles, permuted lanes, a padded buffer.

    The paper's operands are column-major; for a row-major A, lanes copy single elements instead of vectors.
    """
    a = spec.matmul.A
    pair = 2 if a.order is ColMajor and a.aligned(2) else 1
    width = min(4, 16 // a.dtype.nbytes)

    def load_a(move: MoveChain) -> Schedule:
        warp = move.tile(128, 1).to(Warp).tile(64, 1).unroll()
        return warp.tile(pair, 1).to(Thread).layout(ColMajor).unroll().done()

    def load_b(move: MoveChain) -> Schedule:
        warp = move.tile(8, 16).to(Warp).tile(8, 4).unroll()
        return warp.tile(1, 1).to(Thread).layout(ColMajor).done()

    return (
        spec.tile(128, 128, batch=spec.batch)
        .to(Block)
        .layout(ColMajor)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH, load_a)
        .storage_layout(ColMajor)
        .no_sync()
        .load(B, SH, load_b)
        .storage_layout(RowMajor)
        .pad(4)
        .tile(64, 32)
        .to(Warp)
        .tile(Strided((4, 32), (4, 16)))
        .to(Thread)
        .layout(ColMajor)
        .permute(_lanes_of_listing4)
        .split(1)
        .unroll()
        .load(A, RF, lambda move: move.tile(width, 1).unroll().done())
        .load(B, RF, lambda move: move.tile(1, width).unroll().done())
        .tile(1, 1)
        .unroll()
        .done()
    )


def _elements(move: MoveChain) -> Schedule:
    """Store each thread's elements one by one.

    With vectors, accumulators would have to be in aligned groups of four registers, which causes register-bank
    conflicts in the main loop.
    """
    return move.own(Thread).tile(1, 1).unroll().done()


SCHEDULER_LANES = 32  # multiply-adds of f32 that a scheduler issues in a clock


def _tiling(spec: MatMulChain, keywords: Mapping[str, Any]) -> Tiling:
    """Describe a point of the search space to the quick model of tiles."""
    known = {name: value for name, value in keywords.items() if value is not None}
    wide = spec.matmul.accumulator.nbytes == 8
    block = known.get("m", 128), known.get("n", 128)
    warp, thread = known.get("warp", (64, 32) if wide else (64, 64)), known.get("thread", (8, 8) if wide else (16, 8))
    return Tiling(
        block,
        known.get("k", 8),
        warp,
        1,
        SCHEDULER_LANES / (2 if wide else 1),
        known.get("stages", 2),
        split_k=known.get("split_k", 1),
        staged=spec.matmul.A.dtype.nbytes / 4,
        thread=thread,
    )


@preset
@space(
    "",
    _tiling,
    m=(64, 128, 256),
    n=(64, 128, 256),
    k=(8, 16),
    warp=((32, 64), (64, 32), (64, 64)),
    thread=((8, 8), (16, 8)),
    stages=(2, 3),
    split_k=(1, 2, 4, 8),
)
def sgemm(
    spec: MatMulChain,
    m: int = 128,
    n: int = 128,
    k: int = 8,
    warp: tuple[int, int] | None = None,
    thread: tuple[int, int] | None = None,
    stages: int = 2,
    ahead: int = 1,
    pad: int = 4,
    group: int = 8,
    ways: int = 1,
    split_k: int = 1,
    ops: tuple[Op, ...] = (),
    copies: Strategy | None = None,
    resident: int = 0,
    stream: int = 0,
) -> Schedule:
    """Schedule a tuned product for CUDA cores.

    Loads go through registers, ahead of the products; a thread holds chunks of 4x4 elements.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K.
        warp: rows and columns of a warp's tile; (64, 64), or (64, 32) for accumulators of 8 bytes.
        thread: elements of a thread, in chunks of four by four; (16, 8), or (8, 8) for accumulators of 8 bytes.
        stages: number of ring slots of the shared buffers.
        ahead: number of slots of register fragments.
        pad: elements added to the leading strides of the shared buffers.
        group: number of rows of tiles that blocks visit together, so that operands are found in the L2 cache.
        ways: number of groups of warps that each take a part of every chunk of K; chunks are longer by this factor.
        split_k: number of blocks that share a tile of C, each with a part of K, for products with too few tiles to fill
            the GPU.
        ops: pointwise functions of the accumulator, applied in order (`add(bias)`, `relu`).
        copies: strategy that loads operands to shared memory; through registers where None.
        resident: number of blocks of an SM for which the compiler limits registers; 0 for no limit.
        stream: number of blocks on each SM that take equal shares of the chunks of K of all tiles (stream-K), for
            products whose tiles fill waves badly; 0 where blocks take whole tiles.
    """
    wide = spec.matmul.accumulator.nbytes == 8
    rows, cols = warp or ((64, 32) if wide else (64, 64))
    i, j = thread or ((8, 8) if wide else (16, 8))
    how = copies or staged()
    chain: MatMulChain = spec.tile(m, n, batch=spec.batch).to(Block, resident=stream or resident)
    chain = chain.persistent(Grouped(group), share=stream_k()) if stream else chain.layout(Grouped(group))
    chain = chain.epilog(*ops, memory=RF, store=_elements)
    if split_k > 1:
        chain = chain.split(ways=split_k, multiple_of=ways * k).parallel(Block)
    chain = (
        chain.split(ways * k)
        .pipeline(stages)
        .load(A, SH, how)
        .storage_layout(ColMajor)
        .pad(pad)
        .load(B, SH, how)
        .storage_layout(RowMajor)
        .pad(pad)
    )
    if ways > 1:
        chain = chain.split(k).parallel(Group(Warp, (m // rows) * (n // cols)))
    return (
        chain.tile(rows, cols)
        .to(Warp)
        .tile(Strided((4, 4 * rows // i), (4, 4 * cols // j)))
        .to(Thread)
        .split(1)
        .unroll()
        .pipeline(ahead)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .layout(Serpentine())
        .unroll()
        .done()
    )
