"""A tile to Block inside a tile to Thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(16, 16).to(Block).tile(4, 4).to(Thread).tile(2, 2).to(Block)


def test_level_outward(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-nests",
        "to(Block)",
        """\
DecompositionError[level-nests]: cannot map tiles of MatMul 4x4x64 to Block: the spec is already at level Thread
  --> test_level_outward.py:12:87
12 |     return matmul(64, 64, 64).tile(16, 16).to(Block).tile(4, 4).to(Thread).tile(2, 2).to(Block)
   |                                                                                       ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 16x16 to Block > tile 4x4 to Thread > tile 2x2
fix: tile to Block before Thread, or drop this link""",
    )
