"""split(ways=) of several products whose K differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Matrix, products


def wrong() -> Any:
    x, h, y = Matrix(64, 96, name="x"), Matrix(64, 32, name="h"), Matrix(64, 128, name="y")
    w, u = Matrix(96, 128, name="w"), Matrix(32, 128, name="u")
    return products(y, [(x, w), (h, u)]).tile(32, 32).to(Block).epilog(memory=RF).split(ways=4)


def test_products_ways(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-spec",
        "split(ways=4)",
        """\
DecompositionError[wrong-spec]: products of MatMul 32x32x96|32 differ in K, and a number of chunks needs one K
  --> test_products_ways.py:14:83
14 |     return products(y, [(x, w), (h, u)]).tile(32, 32).to(Block).epilog(memory=RF).split(ways=4)
   |                                                                                   ^^^^^^^^^^^^^
at:  MatMul 64x128x96|32 @ Kernel > tile 32x32 to Block > epilog RF
fix: split(16)""",
    )
