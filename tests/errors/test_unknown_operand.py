"""A load of an operand that the spec does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load("D", SH)


def test_unknown_operand(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-operand",
        'load("D", SH)',
        """\
DecompositionError[unknown-operand]: MatMul 32x32x8 has no operand D
  --> test_unknown_operand.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load("D", SH)
   |                                                               ^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: operands: A, B, C""",
    )
