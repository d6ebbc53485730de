"""x == y instead of equal(x, y), in an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul, where


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: where(x == 0, 1, x), memory=RF)


def test_expression_equals(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-operand",
        "epilog(lambda x: where(x == 0, 1, x), memory=RF)",
        """\
SpecError[bad-operand]: False cannot take part in a pointwise expression: x == y compares expressions as wholes
  --> test_expression_equals.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: where(x == 0, 1, x), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use equal(x, y), or the numbers 1 and 0""",
    )
