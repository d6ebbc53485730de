"""A tile of a product with three sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32, 8)


def test_tile_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-arguments",
        "tile(32, 32, 8)",
        """\
DecompositionError[tile-arguments]: tile(32, 32, 8) is no tile of MatMul 64x64x64
  --> test_tile_arguments.py:12:31
12 |     return matmul(64, 64, 64).tile(32, 32, 8)
   |                               ^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: tile(rows, cols), or tile(Strided((chunk, stride), (chunk, stride)))""",
    )
