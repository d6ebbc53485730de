"""A strided tile whose chunks overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Strided, matmul


def wrong() -> Any:
    return matmul(128, 128, 16).tile(64, 64).to(Block).tile(Strided((4, 16), (8, 4)))


def test_tile_overlap(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-gaps",
        "tile(Strided((4, 16), (8, 4)))",
        """\
DecompositionError[tile-gaps]: 8 elements every 4 along N do not cover its 64 elements without gaps or overlap
  --> test_tile_overlap.py:12:56
12 |     return matmul(128, 128, 16).tile(64, 64).to(Block).tile(Strided((4, 16), (8, 4)))
   |                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 128x128x16 @ Kernel > tile 64x64 to Block
fix: the stride must be a multiple of the chunk, and divide the extent""",
    )
