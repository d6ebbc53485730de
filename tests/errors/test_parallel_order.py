"""parallel(Block) below another split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(32).split(16).parallel(Block)


def test_parallel_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-order",
        "parallel(Block)",
        """\
DecompositionError[parallel-order]: blocks take chunks of the whole K, and a split above has cut it already
  --> test_parallel_order.py:12:92
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(32).split(16).parallel(Block)
   |                                                                                            ^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 32 > split 16
fix: make this the first split below epilog""",
    )
