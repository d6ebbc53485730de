"""Grouped(0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Grouped, matmul


def wrong() -> Any:
    return matmul(4096, 4096, 4096).tile(128, 128).to(Block).layout(Grouped(0))


def test_tile_order_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-order",
        "layout(Grouped(0))",
        """\
DecompositionError[tile-order]: Grouped(0) groups no rows of tiles
  --> test_tile_order_rows.py:12:62
12 |     return matmul(4096, 4096, 4096).tile(128, 128).to(Block).layout(Grouped(0))
   |                                                              ^^^^^^^^^^^^^^^^^^
at:  MatMul 4096x4096x4096 @ Kernel > tile 128x128 to Block
fix: use 1 or more, for example 8""",
    )
