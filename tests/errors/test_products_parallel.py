"""parallel(Warp) of several products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Warp, products


def wrong() -> Any:
    x, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "w", "u", "y"))
    return products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(8, 8).to(Block).epilog().split(8).parallel(Warp)


def test_products_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-products",
        "parallel(Warp)",
        """\
DecompositionError[parallel-products]: Warps share K of MatMul 8x8x8, and only blocks add the sums of several products
  --> test_products_parallel.py:13:102
13 |     return products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(8, 8).to(Block).epilog().split(8).parallel(Warp)
   |                                                                                                      ^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 8x8 to Block > epilog RF > split 8
fix: write split(ways=n, multiple_of=k).parallel(Block, reduce=by_cluster()), in_order() or by_atomics()""",
    )
