"""A load of the whole K of products whose K differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, Block, Matrix, products


def wrong() -> Any:
    x, w, y = (Matrix(64, 64, name=name) for name in ("x", "w", "y"))
    chain = products(y, [(x, w), (Matrix(64, 32, name="h"), Matrix(32, 64, name="u"))]).tile(32, 32).to(Block)
    return chain.epilog().load("h", SH)


def test_products_load_above_split(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-above-split",
        'load("h", SH)',
        """\
DecompositionError[load-above-split]: products of MatMul 32x32x64|32 differ in K, so that h is no tile of one size
  --> test_products_load_above_split.py:14:27
14 |     return chain.epilog().load("h", SH)
   |                           ^^^^^^^^^^^^^
at:  MatMul 64x64x64|32 @ Kernel > tile 32x32 to Block > epilog RF
fix: split K above the loads""",
    )
