"""A load above the epilog of several products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, products


def wrong() -> Any:
    x, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "w", "u", "y"))
    return products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(32, 32).to(Block).load(A, SH)


def test_products_load_above_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-above-epilog",
        "load(A, SH)",
        """\
DecompositionError[load-above-epilog]: loops of MatMul 32x32x64 follow each other below epilog, and x is loaded above
  --> test_products_load_above_epilog.py:13:86
13 |     return products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(32, 32).to(Block).load(A, SH)
   |                                                                                      ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: write epilog(...) first, then load""",
    )
