"""A tile with an extent of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 0)


def test_tile_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-extent",
        "tile(32, 0)",
        """\
DecompositionError[tile-extent]: a tile of 0 elements along N is empty
  --> test_tile_size.py:12:31
12 |     return matmul(64, 64, 64).tile(32, 0)
   |                               ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: tile sizes are whole numbers of 1 and more""",
    )
