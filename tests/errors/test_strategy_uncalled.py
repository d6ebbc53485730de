"""cp_async instead of cp_async()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, cp_async, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, cp_async)


def test_strategy_uncalled(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished-move",
        "load(A, SH, cp_async)",
        """\
DecompositionError[unfinished-move]: cp_async is a function that makes a strategy
  --> test_strategy_uncalled.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, cp_async)
   |                                                               ^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: call it: cp_async()""",
    )
