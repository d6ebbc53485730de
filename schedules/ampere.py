"""Schedules for tensor cores by mma.sync: sm_80 and every later architecture, where they are the portable path."""

from __future__ import annotations

import attrs

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
    Op,
    RowMajor,
    Strategy,
    Swizzle,
    Tensor,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    staged,
    through_shared,
)


@attrs.frozen
class Sizes:
    """Hold what suits one width of elements.

    Args:
        m, n, k: tile of a block, chunk of K.
        warp: tile of a warp.
        stages: ring slots of the shared buffers.
        step: K of an mma, and of a fragment.
        slots: of the fragments.
    """

    m: int
    n: int
    k: int
    warp: tuple[int, int]
    stages: int
    step: int
    slots: int = 2


# By bytes of an element. Accumulators of 128 registers leave room for two slots of fragments; those of f64 do not.
SIZES = {
    1: Sizes(128, 256, 64, (64, 64), 4, 32),
    2: Sizes(128, 256, 32, (64, 64), 4, 16),
    8: Sizes(128, 64, 16, (64, 32), 3, 8, slots=1),
}


def _usual(nbytes: int, ways: int) -> Sizes:
    """Give what suits a width of elements: with several ways as many threads and hardly more shared memory as with one.

    Ways halve the longer side of a block's tile, down to that of a warp. Their chunks together are longer than one,
    so that fewer slots hold as much; where not even two would, chunks shrink, down to one step.
    """
    one = SIZES[nbytes]
    m, n, k, (rows, columns) = one.m, one.n, one.k, one.warp
    for _ in range(ways.bit_length() - 1):
        m, n = (max(m // 2, rows), n) if m > n else (m, max(n // 2, columns))
    held = (one.m + one.n) * one.k * one.stages
    while k > one.step and held < 2 * (m + n) * k * ways:
        k //= 2
    return attrs.evolve(one, m=m, n=n, k=k, stages=min(one.stages, max(2, held // ((m + n) * k * ways))))


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
    kept = along_k or nbytes != 1
    copied = kept and tensor.aligned(max(1, 4 // nbytes))
    loaded = chain.load(role, SH, cp_async() if copied else staged())
    k_first = RowMajor if role is A else ColMajor
    vector = (16 // nbytes).bit_length() - 1
    if nbytes == 8:
        return loaded.pad(4)
    if along_k or not kept:
        # Eight lines that a phase of ldmatrix reads start in as many banks: their vectors are permuted by the line,
        # by pairs of lines where 64 bytes make one.
        spread = (row // 16).bit_length() - 1
        return loaded.storage_layout(k_first).swizzle(Swizzle(min(3, spread), vector, max(3, spread)))
    return loaded.storage_layout(ColMajor if role is A else RowMajor).swizzle(Swizzle(3, 3, lines.bit_length() - 4))


def _lines(tensor: Tensor, m: int, n: int, ring_nbytes: int) -> Strategy:
    """Store whole lines by way of the operands' ring, as many rows of the tile at once as it holds.

    The pad parts the rows that four neighbouring threads write to by as much as they write.
    """
    nbytes = tensor.dtype.nbytes
    pad, rows = max(8, 16 // nbytes), m
    while rows > 16 and rows * (n + pad) * nbytes > ring_nbytes:
        rows //= 2
    return through_shared(panel=None if rows == m else (rows, n), pad=pad, reuse=True)


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
) -> MatMulChain:
    """Schedule a product for tensor cores: asynchronous copies, ldmatrix, mma.sync.

    Element types f16, bf16, i8, u8 and f64, in all layouts. What is not given suits the element type.

    Args:
        m, n, k: tile of a block, chunk of K; powers of two, a chunk 32 bytes or more.
        warp: tile of a warp.
        stages: ring slots of the shared buffers; stages - 1 chunks of K are in flight.
        step: K of a fragment, that of an mma.
        slots: of the fragments; with 2 they are loaded under the math of the step before, over the chunks' ends too.
        ring: chunks that stand together in a trip of the main loop; as many as there are stages.
        fragments: how fragments are loaded, ldmatrix() where elements of its width exist.
        store: how the result goes to C: whole lines by way of shared memory, or conform() for each thread's own.
        ops: pointwise functions of the accumulator, first to last.
        ways: as many groups of warps take a chunk of K each at once, 1, 2, 4 or 8; their chunks are loaded together, so
            that fewer stages and smaller tiles suit.
        split_k: as many blocks share a tile of C, each with a part of K: for tiles too few to fill the GPU.
    """
    a, b = spec.matmul.A, spec.matmul.B
    nbytes = a.dtype.nbytes
    usual = _usual(nbytes, ways)
    m, n, k, warp = m or usual.m, n or usual.n, k or usual.k, warp or usual.warp
    stages, step, slots = stages or usual.stages, step or usual.step, slots or usual.slots
    tile, chunk = (16, 8), ways * k
    how = fragments or (conform() if nbytes == 8 else ldmatrix())
    store = store or _lines(spec.matmul.C, m, n, (m + n) * chunk * nbytes * stages)
    chain: MatMulChain = spec.tile(m, n, batch=spec.batch).to(Block).layout(Grouped(8))
    chain = chain.epilog(*ops, memory=FR, store=store)
    if split_k > 1:
        chain = chain.split(ways=split_k, multiple_of=chunk).parallel(Block)
    chain = chain.split(chunk).pipeline(stages).unroll(ring or stages)
    chain = _load(chain, a, a.order is RowMajor, m, chunk * nbytes)
    chain = _load(chain, b, b.order is ColMajor, n, chunk * nbytes)
    if ways > 1:
        chain = chain.split(k).parallel(Group(Warp, (m // warp[0]) * (n // warp[1])))
    chain = chain.tile(*warp).to(Warp).split(step).unroll().pipeline(slots)
    return chain.load(A, FR, how).load(B, FR, how).tile(*tile).unroll().done()
