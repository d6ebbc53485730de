"""Buffers in shared memory through which threads of quad-pairs exchange sums."""

from __future__ import annotations

from fireiron import (
    RF,
    SRC,
    DType,
    Layout,
    MoveChain,
    RowMajor,
    Schedule,
    Strategy,
    Swizzle,
    Thread,
    conform,
    f16,
    f32,
    through_shared,
    vector,
)


def exchange(rows: int, cols: int, stored: DType, sums: DType | None = None) -> Layout:
    """Lay out sums so that neither stores to the buffer nor loads of whole lines meet bank conflicts.

    Of sums in f32, lanes that store together hold 8 columns of rows 0, 1, 4, 5 and, by 4 bytes, 8, 9, 12, 13. In the
    buffer rows 0 and 2 are neighbours, then 1 and 3; pads behind each pair let the lanes' rows start in different
    banks. Lanes with sums in f16 hold rows 0 to 7, each of which has a pad of 16 bytes.

    Args:
        rows: rows of the buffer, a multiple of 4.
        cols: its columns, a power of 2; of sums in f16, lines of less than 128 bytes meet conflicts.
        stored: type of the buffer's elements.
        sums: type of the sums, None for f32.

    Example:
        >>> from fireiron import f32
        >>> print(exchange(32, 128, f16))
        ((2,2,8),128):((264,128,528),1)
    """
    if sums == f16:
        return Layout((rows, cols), (cols + 16 // stored.nbytes, 1))
    behind_two, behind_four = {32: (0, 8), 64: (cols, 8)}.get(cols * stored.nbytes, (8, 0))
    odd = 2 * cols + behind_two
    return Layout(((2, 2, rows // 4), cols), ((odd, cols, 2 * odd + behind_four), 1))


def store(rows: int, cols: int, stored: DType, sums: DType | None = None, behind: bool = False) -> Strategy:
    """Store sums through shared memory, by vectors of 16 bytes where the result's lines are aligned.

    Args:
        rows: rows that are in shared memory at once, a multiple of 4.
        cols: columns of a block's tile, a power of 2.
        stored: type of the result.
        sums: type of the sums, None for f32.
        behind: whether ops run behind the exchange, on values of the sums' type.
    """
    if not behind:
        order = exchange(rows, cols, stored, sums)
        return through_shared(conform(), vector(), panel=(rows, cols), order=order, reuse=True)
    held = sums or f32
    order = exchange(rows, cols, held, sums)
    # Of eight lanes that load vectors of 16 bytes, each 32 bytes from the next, four begin with the other half.
    halves = Swizzle(1, 2, 3) if held == f32 and stored.nbytes < held.nbytes else None
    return through_shared(
        conform(), _lines, panel=(rows, cols), order=order, reuse=True, dtype=held, swizzle=halves
    )  # fmt: skip


def _lines(move: MoveChain) -> Schedule:
    """Move the neighbours of 16 bytes of the result together, by several vectors where the source's are wider."""
    result = move.residual.operands[1].tensor
    width = 16 // result.dtype.nbytes
    if result.order is not RowMajor or not result.aligned(width):
        return vector()(move)
    own = move.tile(1, width).to(Thread).unroll()
    return own.load(SRC, RF, lambda part: part.vectors().unroll().done()).done()
