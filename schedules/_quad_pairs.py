"""Buffers in shared memory through which threads of quad-pairs exchange sums."""

from __future__ import annotations

from fireiron import DType, Layout, f16


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
