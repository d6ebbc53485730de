"""Hilbert(12); the side must be a power of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Hilbert, matmul


def wrong() -> Any:
    return matmul(4096, 4096, 4096).tile(128, 128).to(Block).persistent(Hilbert(12))


def test_tile_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-order",
        "persistent(Hilbert(12))",
        """\
DecompositionError[tile-order]: no Hilbert curve fills a square of 12 x 12 tiles
  --> test_tile_order.py:12:62
12 |     return matmul(4096, 4096, 4096).tile(128, 128).to(Block).persistent(Hilbert(12))
   |                                                              ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 4096x4096x4096 @ Kernel > tile 128x128 to Block
fix: use a power of two: Hilbert(8)""",
    )
