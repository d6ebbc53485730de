"""A number instead of a strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, 16)


def test_strategy_no_function(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        "load(A, SH, 16)",
        """\
DecompositionError[argument-kind]: load takes a strategy, not 16
  --> test_strategy_no_function.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, 16)
   |                                                               ^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: give a function from a Move to a finished Move: vector(16), cp_async(16), or one of yours""",
    )
