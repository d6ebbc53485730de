"""Schedules for tensor cores by mma.sync: sm_80 and every later architecture, where they are the portable path."""

from __future__ import annotations

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
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


def _load(chain: MatMulChain, tensor: Tensor, along_k: bool, lines: int) -> MatMulChain:
    """Load an operand to shared memory, swizzled so that copies and ldmatrix meet no bank conflicts.

    Asynchronous copies move 4 bytes and more; where lines do not divide so, or bytes are transposed, registers stage
    the copy.
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
        return loaded.storage_layout(k_first).swizzle(Swizzle(2, vector, 3))
    return loaded.storage_layout(ColMajor if role is A else RowMajor).swizzle(Swizzle(3, 3, lines.bit_length() - 4))


def gemm(
    spec: MatMulChain, m: int = 128, n: int = 128, warp: tuple[int, int] = (64, 64), stages: int = 4
) -> MatMulChain:
    """Schedule a product for tensor cores: asynchronous copies, ldmatrix, mma.sync.

    Element types f16, bf16, i8, u8 and f64, in all layouts.

    Args:
        m, n: tile of a block, powers of two.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
    """
    a, b = spec.matmul.A, spec.matmul.B
    nbytes = a.dtype.nbytes
    if nbytes == 8:
        m, n, warp, stages = m // 2, n // 2, (32, 32), min(stages, 3)
    chunk = ROW_NBYTES // nbytes * (2 if nbytes == 8 else 1)
    step, tile = {1: (32, (16, 8)), 2: (16, (16, 8)), 8: (4, (8, 8))}[nbytes]
    fragments = conform() if nbytes == 8 else ldmatrix()
    chain = (
        spec.tile(m, n, batch=spec.batch).to(Block).layout(Grouped(8)).epilog(memory=FR).split(chunk).pipeline(stages)
    )
    chain = _load(chain, a, a.order is RowMajor, m)
    chain = _load(chain, b, b.order is ColMajor, n)
    chain = chain.tile(*warp).to(Warp).split(step).unroll()
    return chain.load(A, FR, fragments).load(B, FR, fragments).tile(*tile).unroll().done()
