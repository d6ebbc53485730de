"""Shared by schedules of attention and its gradients: tiles of one head, and their loads to shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from fireiron import SH, Expr, ProgramChain, Strategy, Swizzle, Tensor, arch, cp_async, machine

VECTOR_NBYTES = 16
WIDE = 64  # columns
SHARED = 96 * 1024  # bytes of shared memory that a block has on sm_86 and later
HOPPER_SHARED = 226 * 1024  # bytes of shared memory that a block has on Hopper, without barriers
ROWS = 16  # rows of an mma
PAIR = 2 * ROWS  # rows of a warp that computes two tiles of an mma
GROUP_ROWS = 64  # rows of a wgmma


def heads(spec: ProgramChain) -> dict[str, int]:
    """Return a tile of one head: extent 1 for b and h, and for g where heads of queries share keys and values."""
    return {name: 1 for name in "bhg" if name in spec.residual.extents}


def array(spec: ProgramChain, *names: str) -> Tensor:
    """Return the first of the named arrays that the program reads; masks and biases may come before it.

    A program with none of them gives its first input: the preset then fails with a code, where it loads the array.
    """
    arrays = {tensor.name: tensor for tensor in spec.computed.inputs}
    return next((arrays[name] for name in names if name in arrays), spec.computed.inputs[0])


def tile_to_shared(chain: ProgramChain, name: str, columns: int, nbytes: int) -> ProgramChain:
    """Load a tile to shared memory by asynchronous copies, swizzled so that ldmatrix meets no bank conflicts."""
    copy: Strategy = cp_async()
    return swizzled(chain.load(name, SH, copy), columns, nbytes)


def swizzled(loaded: ProgramChain, columns: int, nbytes: int) -> ProgramChain:
    """Swizzle the tile that was loaded last by vectors of 16 bytes, or pad its lines where they are no power of two."""
    pieces = columns * nbytes // VECTOR_NBYTES
    vector_bits = (VECTOR_NBYTES // nbytes).bit_length() - 1
    if line_nbytes(columns, nbytes) != columns * nbytes:
        return loaded.pad(VECTOR_NBYTES // nbytes)
    bits = pieces.bit_length() - 1
    return loaded.swizzle(Swizzle(min(3, bits), vector_bits, max(3, bits)))


def line_nbytes(columns: int, nbytes: int) -> int:
    """Return the bytes of a line of such a tile: lines that are no power of two are padded by a vector."""
    pieces = columns * nbytes // VECTOR_NBYTES
    return columns * nbytes + (VECTOR_NBYTES if pieces & (pieces - 1) else 0)


def two_share(spec: ProgramChain, nbytes: int) -> bool:
    """Say whether a multiprocessor has shared memory for two blocks of `nbytes` each.

    A block must also fit every architecture from sm_80 on: a program that names none may be compiled for any.
    """
    target = arch(spec.program.arch or "sm_90a")
    return nbytes <= SHARED and 2 * (nbytes + target.shared_reserved) <= target.shared_per_sm


def blocks(spec: ProgramChain, tile: Mapping[str, int]) -> int | None:
    """Count the tiles of a program; None where an extent is a symbol."""
    extents = {name: spec.residual.extents[name] for name in tile}
    known = [-(-extent // tile[name]) for name, extent in extents.items() if isinstance(extent, int)]
    return prod(known) if len(known) == len(tile) else None


def few_blocks(spec: ProgramChain, tile: Mapping[str, int]) -> bool:
    """Say whether tiles are fewer than the multiprocessors of the program's machine."""
    count = blocks(spec, tile)
    return count is not None and count < machine(spec.program.arch or "sm_90a").sms


def beside(spec: ProgramChain, most: int) -> int:
    """Choose the number of heads whose tiles are visited together: a divisor of the number of heads, at most `most`."""
    extents = [spec.residual.extents[name] for name in heads(spec)]
    count = prod(e for e in extents if isinstance(e, int)) if all(isinstance(e, int) for e in extents) else 1
    return max(n for n in range(1, max(1, min(count, most)) + 1) if count % n == 0)


def longest_first(t: Expr, tiles: int | Expr, together: int) -> Expr:
    """Return the number of the tile at a turn: the last queries first, which see the most keys under causal masks.

    Persistent blocks that take every n-th tile then have equal work.

    Args:
        t: number of the turn.
        tiles: number of tiles of a head.
        together: number of heads whose tiles are visited together.
    """
    section, turn = t // (together * tiles), t % (together * tiles)
    return (section * together + turn % together) * tiles + (tiles - 1 - turn // together)


def reads_both(spec: ProgramChain) -> bool:
    """Say whether a mask reads integers along queries and along keys; their comparison needs registers."""
    reads = [ref for step in spec.computed.steps for ref in step.reads if ref.dtype.kind == "int"]
    return {"i", "j"} <= {d.name for ref in reads for d in ref.dims}
