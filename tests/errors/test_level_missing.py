"""A tile to Kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Kernel, Warp, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(16, 16).to(Block).tile(4, 4).to(Warp).tile(2, 2).to(Kernel)


def test_level_missing(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-nests",
        "to(Kernel)",
        """\
DecompositionError[level-nests]: cannot map tiles of MatMul 4x4x64 to Kernel: the spec is already at level Warp
  --> test_level_missing.py:12:85
12 |     return matmul(64, 64, 64).tile(16, 16).to(Block).tile(4, 4).to(Warp).tile(2, 2).to(Kernel)
   |                                                                                     ^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 16x16 to Block > tile 4x4 to Warp > tile 2x2
fix: drop this link""",
    )
