"""Compiling an unfinished schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).compile("sm_80")


def test_unfinished_compile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished",
        'compile("sm_80")',
        """\
UsageError[unfinished]: compile needs a finished schedule, and this one leaves MatMul(32, 32, 64)(GL, GL, GL)(Block)
  --> test_unfinished_compile.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).compile("sm_80")
   |                                                      ^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: close the chain by .done()""",
    )
