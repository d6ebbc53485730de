"""promote() without accumulators in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(16).promote()


def test_promote_accumulator(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "promote-accumulator",
        "promote()",
        """\
DecompositionError[promote-accumulator]: promote() adds to accumulators in registers, and C lies in GL
  --> test_promote_accumulator.py:12:64
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(16).promote()
   |                                                                ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 16
fix: write epilog(...) above the split""",
    )
