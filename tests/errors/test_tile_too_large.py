"""A tile larger than the tile above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).tile(64, 16)


def test_tile_too_large(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-too-large",
        "tile(64, 16)",
        """\
DecompositionError[tile-too-large]: a tile of 64 along M is larger than the 32 elements that Block has
  --> test_tile_too_large.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).tile(64, 16)
   |                                                      ^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use at most 32""",
    )
