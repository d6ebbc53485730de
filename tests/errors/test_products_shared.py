"""in_order(shared=True) of several products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Matrix, in_order, products


def wrong() -> Any:
    x, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "w", "u", "y"))
    tile = products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(8, 8).to(Block).epilog(memory=RF)
    return tile.split(ways=2, multiple_of=8).parallel(Block, reduce=in_order(shared=True))


def test_products_shared(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-products",
        "parallel(Block, reduce=in_order(shared=True))",
        """\
DecompositionError[parallel-products]: in_order(shared=True) adds the sums of one product, and MatMul 8x8x32 has several
  --> test_products_shared.py:14:46
14 |     return tile.split(ways=2, multiple_of=8).parallel(Block, reduce=in_order(shared=True))
   |                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 8x8 to Block > epilog RF > split 2 ways
fix: write split(ways=n, multiple_of=k).parallel(Block, reduce=by_cluster()), in_order() or by_atomics()""",
    )
