"""staggered() with blocks as units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(256, 256, 64).tile(128, 32).to(Block).persistent().tile(128, 32).to(Block).staggered(2)


def test_staggered_block(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) lets parts of a block take tiles in turn, and Block is no such part
  --> test_staggered_block.py:12:94
12 |     return matmul(256, 256, 64).tile(128, 32).to(Block).persistent().tile(128, 32).to(Block).staggered(2)
   |                                                                                              ^^^^^^^^^^^^
at:  MatMul 256x256x64 @ Kernel > tile 128x32 to Block > tile 128x32 to Block
fix: tile(m, n).to(Warpgroup).staggered(2) with the block's own m and n""",
    )
