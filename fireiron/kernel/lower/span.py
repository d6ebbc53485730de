"""Spans: rows of 32, 64 or 128 bytes of shared memory that the hardware swizzles, in bulk copies and wgmma."""

from __future__ import annotations

from fireiron.algebra.swizzle import Swizzle

PANEL_ALIGN = 1024  # bytes after which the widest pattern repeats
SWIZZLED_ROWS = 8  # spans after which a span's own pattern repeats
BOX_ALIGN = 128  # bytes to which boxes of bulk copies are aligned in shared memory


def swizzle_of(span: int, nbytes: int) -> Swizzle | None:
    """Return the swizzle, in elements of `nbytes`, of rows of `span` bytes.

    Source: PTX ISA, tensor swizzling modes.

    Example:
        >>> print(swizzle_of(128, 2))
        Swizzle(3, 3, 3)
    """
    bits = {128: 3, 64: 2, 32: 1, 0: 0}[span]
    return Swizzle(bits, (16 // nbytes).bit_length() - 1, 3) if bits else None
