"""A split above the epilog of several products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, products


def wrong() -> Any:
    x, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "w", "u", "y"))
    chain = products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(8, 8).to(Block)
    return chain.split(8).epilog()


def test_products_split_above_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-above-epilog",
        "split(8)",
        """\
DecompositionError[split-above-epilog]: loops of MatMul 8x8x64 follow each other below epilog, and K is split above
  --> test_products_split_above_epilog.py:14:18
14 |     return chain.split(8).epilog()
   |                  ^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 8x8 to Block
fix: write epilog(...) first, then split""",
    )
