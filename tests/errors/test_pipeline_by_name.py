"""pipeline() with a text instead of a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).pipeline("2")


def test_pipeline_by_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        'pipeline("2")',
        """\
DecompositionError[argument-kind]: pipeline takes a number, not '2'
  --> test_pipeline_by_name.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).pipeline("2")
   |                                                               ^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: give a whole number""",
    )
