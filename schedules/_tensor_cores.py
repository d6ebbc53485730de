"""What the schedules for mma.sync share: a block's operands in swizzled shared memory, fragments by ldmatrix."""

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
    Role,
    RowMajor,
    Strategy,
    Swizzle,
    Tensor,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    staged,
)

ROW_NBYTES = 64  # of a chunk of K: four lanes of 16 bytes
STEP_NBYTES = 32  # of K that ldmatrix loads at once


def gemm(
    spec: MatMulChain,
    block: tuple[int, int],
    warp: tuple[int, int],
    stages: int,
    atom: tuple[int, int, int],
    asynchronous: bool,
    ways: int = 1,
    split_k: int = 1,
) -> MatMulChain:
    """Schedule a product: tiles of a block in a pipeline, tiles of a warp, fragments, the atom.

    Args:
        spec: of at most 32 bits an element, or of f64.
        block: rows and columns of a block's tile, powers of two.
        warp: rows and columns of a warp's tile.
        stages: ring slots of the shared buffers.
        atom: (m, n, k) of the mma.
        asynchronous: whether cp.async fills shared memory, else registers stage the copies.
        ways: groups of warps that each take a part of a chunk of K.
        split_k: blocks that share a tile of C, each with a part of K.
    """
    a, b = spec.left, spec.right
    m, n = block
    wide = a.dtype.bits == 64
    chunk = a.dtype.count_in(ROW_NBYTES * (2 if wide else 1))
    step = atom[2] if wide else a.dtype.count_in(STEP_NBYTES)
    a_along_k, b_along_k = a.order is RowMajor, b.order is ColMajor
    chain: MatMulChain = spec.tile(m, n, batch=spec.batch).to(Block).layout(Grouped(8)).epilog(memory=FR)
    if split_k > 1:
        chain = chain.split(ways=split_k, multiple_of=ways * chunk).parallel(Block)
    chain = chain.split(ways * chunk).pipeline(stages)
    chain = _load(chain, A, a, a_along_k, m, a.dtype.nbytes_of(ways * chunk), asynchronous)
    chain = _load(chain, B, b, b_along_k, n, a.dtype.nbytes_of(ways * chunk), asynchronous)
    if ways > 1:
        chain = chain.split(chunk).parallel(Group(Warp, (m // warp[0]) * (n // warp[1])))
    chain = chain.tile(*warp).to(Warp).split(step).unroll()
    chain = chain.load(A, FR, _fragments(a, a_along_k)).load(B, FR, _fragments(b, b_along_k)).tile(*atom[:2]).unroll()
    return (chain if step == atom[2] else chain.split(atom[2]).unroll()).done()


def _fragments(tensor: Tensor, along_k: bool) -> Strategy:
    """Choose how fragments leave shared memory: by ldmatrix where it deals them out."""
    bits = tensor.dtype.bits
    return conform() if bits == 64 or (bits == 32 and not along_k) else ldmatrix()


def _load(
    chain: MatMulChain, role: Role, tensor: Tensor, along_k: bool, lines: int, row: int, asynchronous: bool
) -> MatMulChain:
    """Load an operand to shared memory, swizzled so that copies and ldmatrix meet no bank conflicts.

    Fragments want K contiguous, but those of 16-bit elements, which ldmatrix can transpose, and those of 32 bits, which
    threads can load one by one. Asynchronous copies move 4 bytes and more; where lines do not divide so, or elements
    are transposed, or converted by a prolog, registers stage the copy.

    Args:
        chain: whose operand.
        role: which.
        tensor: the operand as fragments hold it.
        along_k: whether neighbours along K lie together.
        lines: rows of A, or columns of B.
        row: bytes along K of each of them.
        asynchronous: whether cp.async may be used.
    """
    kind = tensor.dtype
    stored = chain.matmul.A if role is A else chain.matmul.B
    kept = along_k or kind.bits in (16, 32)
    copied = asynchronous and kept and stored.dtype == kind and tensor.aligned(max(1, kind.count_in(4)))
    copy: Strategy = cp_async() if copied else staged()
    loaded = chain.load(role, SH, copy)
    k_first = RowMajor if role is A else ColMajor
    if kind.bits == 64:
        return loaded.storage_layout(k_first).pad(4)
    vector = kind.count_in(16).bit_length() - 1
    if along_k or not kept:
        # Eight lines that a phase of ldmatrix reads start in as many banks: their vectors are permuted by the line,
        # by pairs of lines where 64 bytes make one.
        pieces = (row // 16).bit_length() - 1
        return loaded.storage_layout(k_first).swizzle(Swizzle(min(3, pieces), vector, max(3, pieces)))
    if kind.bits == 32:
        return loaded.storage_layout(ColMajor if role is A else RowMajor).pad(8)  # lanes t + 1 read 8 banks further on
    pieces = lines.bit_length() - 4  # a power of two of 16 bytes in a line
    return loaded.storage_layout(ColMajor if role is A else RowMajor).swizzle(
        Swizzle(min(3, pieces), 3, max(3, pieces))
    )
