"""Several products without an epilog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Thread, products


def wrong() -> Any:
    x, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "w", "u", "y"))
    return products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(8, 8).to(Block).tile(1, 1).to(Thread).done()


def test_products_no_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-epilog",
        "done()",
        """\
DecompositionError[no-epilog]: no link places the sums of MatMul 1x1x64
  --> test_products_no_epilog.py:13:106
13 |     return products(y, (x, w), (x, u), op=lambda a, b: a + b).tile(8, 8).to(Block).tile(1, 1).to(Thread).done()
   |                                                                                                          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 8x8 to Block > tile 1x1 to Thread
fix: add .epilog(memory=FR) below the tile to Block""",
    )
