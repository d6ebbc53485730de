"""x.exp() instead of exp(x), in an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64).then(lambda x: x.exp())


def test_expression_attribute(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "exp()",
        """\
ExpressionError[bad-op]: an expression has no .exp: functions are called with it, as in exp(x)
  --> test_expression_attribute.py:12:48
12 |     return matmul(64, 64, 64).then(lambda x: x.exp())
   |                                                ^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: write exp(x), maximum(x, y), cast(x, 'f16') or another of fireiron's functions, or an operator""",
    )
