"""A strided tile that leaves gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Strided, Warp, matmul


def wrong() -> Any:
    return matmul(128, 128, 16).tile(64, 64).to(Block).tile(Strided((4, 16), (4, 24))).to(Warp)


def test_tile_gaps(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-gaps",
        "tile(Strided((4, 16), (4, 24)))",
        """\
DecompositionError[tile-gaps]: 4 elements every 24 along N do not cover its 64 elements without gaps or overlap
  --> test_tile_gaps.py:12:56
12 |     return matmul(128, 128, 16).tile(64, 64).to(Block).tile(Strided((4, 16), (4, 24))).to(Warp)
   |                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 128x128x16 @ Kernel > tile 64x64 to Block
fix: the stride must be a multiple of the chunk, and divide the extent""",
    )
