"""Schedules for tensor cores by mma.sync: sm_80 and every later architecture, where they are the portable path."""

from __future__ import annotations

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Group,
    Grouped,
    MatMulChain,
    RowMajor,
    Swizzle,
    Tensor,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    staged,
)

ROW_NBYTES = 64  # of a chunk of K: four lanes of 16 bytes


def _load(chain: MatMulChain, tensor: Tensor, along_k: bool, lines: int, row: int) -> MatMulChain:
    """Load an operand to shared memory, swizzled so that copies and ldmatrix meet no bank conflicts.

    Asynchronous copies move 4 bytes and more; where lines do not divide so, or bytes are transposed, registers stage
    the copy.

    Args:
        chain: whose operand.
        tensor: the operand.
        along_k: whether neighbours along K lie together.
        lines: rows of A, or columns of B.
        row: bytes along K of each of them.
    """
    role, nbytes = (A, tensor.dtype.nbytes) if tensor is chain.matmul.A else (B, tensor.dtype.nbytes)
    kept = along_k or nbytes == 2
    copied = kept and tensor.aligned(max(1, 4 // nbytes))
    loaded = chain.load(role, SH, cp_async() if copied else staged())
    k_first = RowMajor if role is A else ColMajor
    vector = (16 // nbytes).bit_length() - 1
    if nbytes == 8:
        return loaded.storage_layout(k_first).pad(4)
    if along_k or not kept:
        # Eight lines that a phase of ldmatrix reads start in as many banks: their vectors are permuted by the line,
        # by pairs of lines where 64 bytes make one.
        bits = min(3, (row // 16).bit_length() - 1)
        return loaded.storage_layout(k_first).swizzle(Swizzle(bits, vector, max(3, (row // 16).bit_length() - 1)))
    return loaded.storage_layout(ColMajor if role is A else RowMajor).swizzle(Swizzle(3, 3, lines.bit_length() - 4))


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

    Element types f16, bf16, i8, u8 and f64, in all layouts.

    Args:
        m, n: tile of a block, powers of two.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        ways: as many groups of warps take a part of each chunk of K, 1, 2, 4 or 8; chunks are longer by this, so that
            fewer stages may fit.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
    """
    a, b = spec.matmul.A, spec.matmul.B
    nbytes = a.dtype.nbytes
    if nbytes == 8:
        m, n, warp, stages = m // 2, n // 2, (32, 32), min(stages, 3)
    chunk = ROW_NBYTES // nbytes * (2 if nbytes == 8 else 1)
    step, tile = {1: (32, (16, 8)), 2: (16, (16, 8)), 8: (4, (8, 8))}[nbytes]
    fragments = conform() if nbytes == 8 else ldmatrix()
    chain: MatMulChain = spec.tile(m, n, batch=spec.batch).to(Block).layout(Grouped(8)).epilog(memory=FR)
    if split_k > 1:
        chain = chain.split(ways=split_k, multiple_of=ways * chunk).parallel(Block)
    chain = chain.split(ways * chunk).pipeline(stages)
    chain = _load(chain, a, a.order is RowMajor, m, ways * chunk * nbytes)
    chain = _load(chain, b, b.order is ColMajor, n, ways * chunk * nbytes)
    if ways > 1:
        chain = chain.split(chunk).parallel(Group(Warp, (m // warp[0]) * (n // warp[1])))
    chain = chain.tile(*warp).to(Warp).split(step).unroll()
    return chain.load(A, FR, fragments).load(B, FR, fragments).tile(*tile).unroll().done()
