"""Schedules for the first tensor cores: quad-pairs of sm_70 by mma.m8n8k4, and fragments of wmma, sm_70 and later."""

from __future__ import annotations

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Expr,
    FireironError,
    Group,
    MatMulChain,
    MoveChain,
    QuadPair,
    RowMajor,
    Schedule,
    Strided,
    Swizzle,
    Thread,
    Warp,
    conform,
    f16,
    i8,
    preset,
    space,
    staged,
    through_shared,
    u8,
    vector,
    wmma,
)
from fireiron.schedules._quad_pairs import store

DTYPE, LAYOUT = "f16:f32:f32", "TN"  # default element types and layout on the command line


@preset
@space(
    "sm_70",
    m=(64, 128, 256),
    n=(64, 128, 256),
    warp=((32, 32), (32, 64), (64, 32), (64, 64)),
    macro=(16, 32),
    ways=(1, 2),
)
def gemm(
    spec: MatMulChain,
    m: int = 128,
    n: int = 128,
    k: int = 32,
    warp: tuple[int, int] = (64, 64),
    macro: int = 16,
    ways: int = 1,
    behind: bool = False,
) -> Schedule:
    """Schedule a product of f16 for the quad-pairs of Volta, in all layouts.

    Each chunk goes through registers to swizzled shared memory while the chunk before is computed. A warp multiplies
    macro tiles, in which each quad-pair takes four of every eight rows and columns, which avoids bank conflicts.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K.
        warp: rows and columns of a warp's tile.
        macro: rows and columns of a macro tile, 16 or 32.
        ways: number of groups of warps that each compute another chunk of K, and add their sums in shared memory: 1, 2
            or 4.
        behind: whether ops run behind the exchange in shared memory, on 8 neighbours of a thread, and read further
            tensors by 16 bytes. Sums in f32 then take twice the shared memory and accesses of a result in f16.

    Source: Bhaskaracharya, Demouth, Grover, Automatic Kernel Generation for Volta Tensor Cores, 2020.
    """
    put = store(min(m, 32), n, spec.matmul.C.dtype, spec.matmul.accumulator, behind)
    chain: MatMulChain = (
        spec.tile(m, n, batch=spec.batch)
        .to(Block)
        .epilog(memory=FR, store=put, behind=behind)
        .split(ways * k)
        .pipeline(2)
        .load(A, SH, staged())
        .swizzle(_swizzle(spec.matmul.A.order is RowMajor, ways * k))
        .load(B, SH, staged())
        .swizzle(_swizzle(spec.matmul.B.order is ColMajor, ways * k))
    )
    if ways > 1:
        chain = chain.split(k).parallel(Group(Warp, (m // warp[0]) * (n // warp[1])))
    chain = (
        chain.tile(*warp)
        .to(Warp)
        .split(8)  # a second set of fragments would spill beside sums in f32
        .unroll()
        .load(A, FR, conform())
        .load(B, FR, conform())
        .tile(macro, macro)
        .unroll()
        .tile(Strided((4, 8), (4, 8)))
        .to(QuadPair)
        .layout(ColMajor)
    )
    if macro > 16:
        chain = chain.tile(8, 8).unroll()
    return chain.split(4).unroll().done()


def _swizzle(along_k: bool, chunk: int) -> Swizzle:
    """Return a swizzle of vectors of 16 bytes by the number of their line; lines along K are as long as a chunk."""
    pieces = chunk.bit_length() - 4 if along_k else 3
    return Swizzle(min(3, pieces), 3, max(3, pieces))


@preset
def small(spec: MatMulChain) -> Schedule:
    """Schedule a product that is too small for the tiles of `gemm`, by 64x64x32 for a block and 32x32 for a warp."""
    return gemm(spec, 64, 64, 32, (32, 32))


@preset
def listing3(spec: MatMulChain, m: int = 16, n: int = 16) -> Schedule:
    """Schedule as the Fireiron paper's Listing 3: fragments straight from global memory, one tile for each warp.

    C has the accumulator's type, and blocks of 64x64 divide the sizes.

    Args:
        m, n: rows and columns of a fragment of C: 16x16, 32x8 or 8x32.

    Raises:
        FireironError: `result-type`.
    """
    _stored_as_summed(spec)

    def store(move: MoveChain) -> Schedule:
        return move.tile(m, n).to(Warp).done("wmma")

    return (
        spec.tile(64, 64, batch=spec.batch)
        .to(Block)
        .epilog(memory=FR, store=store)
        .split(16)
        .tile(m, n)
        .to(Warp)
        .load(A, FR, wmma(m, 16))
        .load(B, FR, wmma(16, n))
        .done("wmma")
    )


def _stored_as_summed(spec: MatMulChain) -> None:
    """Refuse a result of another type than the sums, since wmma cannot convert.

    Raises:
        FireironError: `result-type`.
    """
    product = spec.matmul
    if product.C.dtype != product.accumulator:
        raise FireironError(
            "result-type",
            f"C is {product.C.dtype} and the accumulator {product.accumulator}: wmma stores fragments as they are",
            fix=f'write matmul(..., out="{product.accumulator}"), or use listing5, which converts',
        )


@preset
def listing5(spec: MatMulChain) -> Schedule:
    """Schedule as the Fireiron paper's Listing 5: fragments of 16x16, loads and stores through padded shared memory.

    A is row-major, B column-major.
    """

    def put(move: MoveChain) -> Schedule:
        return wmma()(move.tile(64, 32).to(Warp))

    def take(move: MoveChain) -> Schedule:
        return move.tile(16, 128).to(Warp).tile(1, 128).unroll().tile(1, 4).to(Thread).done()

    def rows(move: MoveChain) -> Schedule:
        return move.tile(16, 128).to(Warp).tile(2, 128).unroll().tile(1, 8).to(Thread).done()

    def columns(move: MoveChain) -> Schedule:
        return move.tile(128, 16).to(Warp).tile(128, 2).unroll().tile(8, 1).to(Thread).layout(ColMajor).done()

    return (
        spec.tile(128, 128, batch=spec.batch)
        .to(Block)
        .epilog(memory=FR, store=through_shared(put, take, reuse=True, dtype=spec.matmul.accumulator))
        .split(128)
        .load(A, SH, rows)
        .pad(8)
        .load(B, SH, columns)
        .pad(8)
        .tile(64, 32)
        .to(Warp)
        .split(16)
        .unroll()
        .load(A, FR, wmma())
        .load(B, FR, wmma())
        .tile(16, 16)
        .unroll()
        .done("wmma")
    )


def _divides(size: int, extent: int | Expr | None) -> bool:
    """Say whether a size is known to divide an extent, which may be a symbol."""
    return extent is not None and (extent if isinstance(extent, int) else extent.divisor) % size == 0


@preset
def tvm(
    spec: MatMulChain, bx: int = 8, by: int = 64, step_k: int = 2, v: int = 8, warp_tile_m: int | None = None
) -> Schedule:
    """Schedule as TVM's tutorial on tensor cores: a warp has one fragment, and shared rows are padded.

    The pad is that of `storage_align`. Element types are f16, i8, u8, i4, u4 and b1; the last three with K contiguous,
    layout TN. C has the accumulator's type. Where a block's tile does not divide M and N or a fragment K, or where the
    hardware has no such fragment, CUDA cores compute tiles of the same size, of 8 and 16 bits.

    Args:
        bx, by: a block has a tile of `by` rows and `8 * bx` columns, `2 * bx` of elements of fewer than 8 bits.
        step_k: number of chunks, of a fragment's K, in shared memory at a time.
        v: number of elements of a vector between global and shared memory.
        warp_tile_m: columns of a fragment: 16 by default, which also has 16 rows; 8 (32 rows) or 32 (8 rows). Elements
            of fewer than 8 bits have fragments of 8x8. Fragments of 8 rows or columns of f16 take operands that lie
            along K, layout TN.

    Raises:
        FireironError: `result-type`.

    Source: TVM, How to optimize matmul with Auto TensorCore CodeGen; its knobs have the same names, and
        `fireiron tune volta.tvm --space bx=2,4,8 --space v=4,8,16,32` searches them.
    """
    _stored_as_summed(spec)
    kind = spec.left.dtype
    packed = kind.pack > 1
    cols = warp_tile_m or (8 if packed else 16)
    rows, depth = (8, 4 * kind.count_in(4)) if packed else (256 // cols, 16)
    columns = (2 if packed else 8) * bx
    extents, divided = spec.residual.extents, {"M": by, "N": columns, "K": depth}
    whole = all(_divides(size, extents[dim]) for dim, size in divided.items())
    if kind in (f16, i8, u8) and not (whole and (rows, cols) in ((16, 16), (32, 8), (8, 32))):
        return (
            spec.tile(by, columns, batch=spec.batch).to(Block).epilog(memory=RF).split(depth * step_k)
            .load(A, SH, vector()).load(B, SH, vector())
            .tile(1, 8).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
        )  # fmt: skip
    copy, offset = vector(max(1, min(16, kind.nbytes_of(v)))), kind.count_in(16)

    def store(move: MoveChain) -> Schedule:
        return move.tile(rows, cols).to(Warp).done("wmma")

    return (
        spec.tile(by, columns, batch=spec.batch)
        .to(Block)
        .epilog(memory=FR, store=store)
        .split(depth * step_k)
        .load(A, SH, copy)
        .pad(offset)
        .load(B, SH, copy)
        .pad(offset)
        .tile(rows, cols)
        .to(Warp)
        .split(depth)
        .unroll()
        .load(A, FR, wmma(rows, depth))
        .load(B, FR, wmma(depth, cols))
        .done("wmma")
    )
