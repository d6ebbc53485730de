"""Shared by the schedules for mma.sync: operands in swizzled shared memory, fragments by ldmatrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import attrs

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Group,
    Grouped,
    MatMulChain,
    Op,
    Role,
    RowMajor,
    Schedule,
    StepChain,
    Strategy,
    Swizzle,
    Tensor,
    Tiling,
    Warp,
    conform,
    cp_async,
    ldmatrix,
    staged,
    stream_k,
    through_shared,
)


@attrs.frozen
class Sizes:
    """Hold the sizes of a schedule.

    Args:
        m, n, k: rows and columns of a block's tile, and chunk of K.
        warp: rows and columns of a warp's tile.
        stages: ring slots of the shared buffers.
        step: K of a fragment.
        slots: number of slots of fragments.
        ring: number of chunks in a trip of the main loop.
    """

    m: int
    n: int
    k: int
    warp: tuple[int, int]
    stages: int
    step: int
    slots: int = 2
    ring: int = 1

    def given(self, **values: int | tuple[int, int] | None) -> Sizes:
        """Replace the sizes that are given and not None."""
        return attrs.evolve(self, **{name: value for name, value in values.items() if value is not None})

    def shared_by(self, ways: int) -> Sizes:
        """Return the sizes for `ways` groups of warps, with the threads of one group and hardly more shared memory.

        The longer side of a block's tile is halved, down to a warp's tile. A slot holds the chunks of all ways, so
        there are fewer slots; if not even two fit, chunks become shorter, down to one step.
        """
        m, n, k, (rows, columns) = self.m, self.n, self.k, self.warp
        for _ in range(ways.bit_length() - 1):
            m, n = (max(m // 2, rows), n) if m > n else (m, max(n // 2, columns))
        held = (self.m + self.n) * self.k * self.stages
        while k > self.step and held < 2 * (m + n) * k * ways:
            k //= 2
        stages = min(self.stages * self.k // k, max(2, held // ((m + n) * k * ways)))
        return attrs.evolve(self, m=m, n=n, k=k, stages=stages)


ASKED = 16  # most specs whose usual sizes are cached while hundreds of points are compared
SCHEDULER = 2048  # bits of one operand that a tensor core multiplies in a clock: 128 elements of f16


def points_of(
    sizes: Callable[[MatMulChain], Sizes], asynchronous: bool = True
) -> Callable[[MatMulChain, Mapping[str, Any]], Tiling | None]:
    """Return a function from a spec and keywords to a preset's tiles, for the quick model.

    Args:
        sizes: function from a spec to default sizes.
        asynchronous: whether cp.async may be used.
    """

    @lru_cache(maxsize=ASKED)
    def usual(spec: MatMulChain, ways: int) -> tuple[Sizes, int, float]:
        """Return the sizes where no keyword is given, the bits of an element, and the registers of a staged one."""
        kind, stored = spec.left.dtype, (spec.matmul.A, spec.matmul.B)
        whole = all(t.aligned(max(1, kind.count_in(4))) for t in stored)  # else elements are copied one by one
        copied = asynchronous and whole and all(t.dtype == kind for t in stored)
        return sizes(spec).shared_by(ways), kind.bits, 0.0 if copied else kind.bits / 32 if whole else 1.0

    def tiling(spec: MatMulChain, keywords: Mapping[str, Any]) -> Tiling | None:
        if spec.left.dtype.bits == 64:  # `ampere.dgemm` is for these
            return None
        ways = keywords.get("ways", 1)
        shared, bits, staged = usual(spec, ways)
        made = shared.given(**{name: keywords.get(name) for name in ("m", "n", "warp", "stages")})
        return Tiling(
            (made.m, made.n),
            made.k * ways,
            made.warp,
            made.step,
            SCHEDULER / bits,
            made.stages,
            made.slots,
            ways,
            keywords.get("split_k", 1),
            staged,
        )

    return tiling


def gemm(
    spec: MatMulChain,
    sizes: Sizes,
    atom: tuple[int, int, int],
    asynchronous: bool = True,
    fragments: Strategy | None = None,
    store: Strategy | None = None,
    ops: tuple[Op, ...] = (),
    ways: int = 1,
    split_k: int = 1,
    family: str | None = None,
    stream: int = 0,
) -> Schedule:
    """Schedule a product: tiles of a block in a pipeline, tiles of a warp, fragments, the atom.

    Args:
        spec: a product with elements of at most 32 bits, or of f64.
        sizes: sizes of tiles, chunks and rings.
        atom: (m, n, k) of the mma.
        asynchronous: whether cp.async loads to shared memory; otherwise copies go through registers.
        fragments: strategy that loads fragments; by default ldmatrix() where it can.
        store: strategy that stores the result; by default whole lines through shared memory.
        ops: pointwise functions of the accumulator, applied in order.
        ways: number of groups of warps, each with its own chunk of K.
        split_k: number of blocks that share a tile of C, each with a part of K.
        family: start of the names of instructions to choose from; None for the first instruction that matches.
        stream: number of blocks on each SM that take equal shares of the chunks of K of all tiles; 0 for whole tiles.

    Raises:
        FireironError: `packed-access` where elements that share a byte are not neighbours along K.
    """
    a, b = spec.left, spec.right
    m, n, k, warp, chunk = sizes.m, sizes.n, sizes.k, sizes.warp, ways * sizes.k
    along_k = a.order is RowMajor, b.order is ColMajor
    for operand, stored, fits in zip(spec.residual.operands, (a, b), along_k, strict=False):
        if stored.dtype.pack > 1 and operand.ops is None and not fits:
            raise FireironError(
                "packed-access",
                f"{stored.dtype.pack} elements of {stored.dtype} share a byte, and {operand.role} is not stored "
                "along K",
                fix='use layout="TN", in words "row,col": K contiguous in both operands',
            )
    held = a.dtype.nbytes_of((m + n) * chunk) * sizes.stages
    chain: MatMulChain = spec.tile(m, n, batch=spec.batch).to(Block, resident=stream)
    chain = chain.persistent(Grouped(8), share=stream_k()) if stream else chain.layout(Grouped(8))
    chain = chain.epilog(*ops, memory=FR, store=store or _lines(spec.matmul.C, m, n, held))
    if split_k > 1:
        chain = chain.split(ways=split_k, multiple_of=chunk).parallel(Block)
    chain = chain.split(chunk).pipeline(sizes.stages).unroll(sizes.ring)
    chain = _load(chain, A, a, along_k[0], m, a.dtype.nbytes_of(chunk), asynchronous)
    chain = _load(chain, B, b, along_k[1], n, a.dtype.nbytes_of(chunk), asynchronous)
    if ways > 1:
        chain = chain.split(k).parallel(Group(Warp, (m // warp[0]) * (n // warp[1])))
    chain = chain.tile(*warp).to(Warp).split(sizes.step).unroll().pipeline(sizes.slots)
    chain = chain.load(A, FR, fragments or _fragments(a, along_k[0])).load(
        B, FR, fragments or _fragments(b, along_k[1])
    )
    chain = chain.tile(*atom[:2]).unroll()
    return (chain if sizes.step == atom[2] else chain.split(atom[2]).unroll()).done(family)


def by_fragments(step: StepChain, operands: str = "AB") -> Schedule:
    """Schedule a step's product of 16-bit floats in a warp, 16 elements of K at a time.

    Args:
        step: the step's MatMul.
        operands: the operands that ldmatrix loads to fragments; others lie in registers already.
    """
    step = step.split(16).unroll()
    for role in operands:
        step = step.load(role, FR, ldmatrix())
    return step.tile(16, 8).unroll().done()


def _fragments(tensor: Tensor, along_k: bool) -> Strategy:
    """Choose the strategy that loads fragments: ldmatrix() where it can."""
    bits = tensor.dtype.bits
    return conform() if bits == 64 or (bits == 32 and not along_k) else ldmatrix()


def _load(
    chain: MatMulChain, role: Role, tensor: Tensor, along_k: bool, lines: int, row: int, asynchronous: bool
) -> MatMulChain:
    """Load an operand to shared memory, swizzled so that copies and ldmatrix meet no bank conflicts.

    Fragments need K contiguous in shared memory, except those of 16-bit elements, which ldmatrix can transpose, and of
    32-bit elements, which threads load one by one. Asynchronous copies move at least 4 bytes. Where lines have other
    lengths, or elements are transposed or converted by a prolog, the copy goes through registers.

    Args:
        chain: the chain.
        role: the operand's role.
        tensor: the operand, with the element type that fragments have.
        along_k: whether K is contiguous.
        lines: number of rows of A, or of columns of B.
        row: bytes of such a row or column along K.
        asynchronous: whether cp.async may be used.
    """
    kind = tensor.dtype
    stored = chain.matmul.A if role is A else chain.matmul.B
    kept = along_k or kind.bits != 8
    parted = role is A and not along_k and chain.matmul.groups is not None and kind.bits < 32
    plain = asynchronous and kept and stored.dtype == kind and not parted
    copied = plain and tensor.aligned(max(1, kind.count_in(4)))
    copy: Strategy = cp_async() if copied else staged()
    loaded = chain.load(role, SH, copy)
    k_first = RowMajor if role is A else ColMajor
    if kind.bits == 64:
        return loaded.pad(4)
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


def _lines(tensor: Tensor, m: int, n: int, ring_nbytes: int) -> Strategy:
    """Store whole lines through the memory of the operands' ring, as many rows of the tile at once as it holds.

    The pad is the bytes that four neighbouring threads write, so that rows start in different banks.
    """
    nbytes = tensor.dtype.nbytes
    pad, rows = max(8, 16 // nbytes), m
    while rows > 16 and rows * (n + pad) * nbytes > ring_nbytes:
        rows //= 2
    return through_shared(panel=None if rows == m else (rows, n), pad=pad, reuse=True)
