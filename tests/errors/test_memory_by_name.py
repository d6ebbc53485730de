"""The name of a memory instead of the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import A, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, "SH")


def test_memory_by_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        'load(A, "SH")',
        """\
DecompositionError[argument-kind]: load takes a memory, not 'SH'
  --> test_memory_by_name.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, "SH")
   |                                                               ^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: give SH, FR or RF, without quotes""",
    )
