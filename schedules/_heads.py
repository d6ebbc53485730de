"""What schedules of attention and of its gradients share: tiles of one head, and how they come to shared memory."""

from __future__ import annotations

from fireiron import SH, ProgramChain, Strategy, Swizzle, cp_async

VECTOR_NBYTES = 16
SHARED = 96 * 1024  # bytes of a block that sm_86 and later have
ROWS = 16  # of an mma


def heads(spec: ProgramChain) -> dict[str, int]:
    """Give a tile of one head: one of queries too, where several share keys and values."""
    return {name: 1 for name in "bhg" if name in spec.residual.extents}


def tile_to_shared(chain: ProgramChain, name: str, columns: int, nbytes: int) -> ProgramChain:
    """Bring a tile to shared memory by asynchronous copies; eight lines that ldmatrix reads start in as many banks."""
    copy: Strategy = cp_async()
    loaded = chain.load(name, SH, copy)
    pieces = columns * nbytes // VECTOR_NBYTES
    vector_bits = (VECTOR_NBYTES // nbytes).bit_length() - 1
    if pieces & (pieces - 1):  # lines that are no power of two
        return loaded.pad(VECTOR_NBYTES // nbytes)
    bits = pieces.bit_length() - 1
    return loaded.swizzle(Swizzle(min(3, bits), vector_bits, max(3, bits)))
