"""Grouped(2) for layers, whose tiles are rows alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Grouped, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(64, 64, name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(32).to(Block).layout(Grouped(2))


def test_tile_order_layers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-order",
        "layout(Grouped(2))",
        """\
DecompositionError[tile-order]: Grouped(2) orders tiles by rows and columns, and tiles of Layers 32x64 are rows alone
  --> test_tile_order_layers.py:13:47
13 |     return layers(y, x, w).tile(32).to(Block).layout(Grouped(2))
   |                                               ^^^^^^^^^^^^^^^^^^
at:  Layers 64x64 @ Kernel > tile 32 to Block
fix: drop layout(...): tiles of rows alone are taken in order""",
    )
