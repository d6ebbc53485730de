"""Python's if on an expression, in an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: x if x > 0 else -x)


def test_epilog_if(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: x if x > 0 else -x)",
        """\
SpecError[bad-op]: an expression has a truth value for each element, so Python's if, and, or and not cannot use it
  --> test_epilog_if.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: x if x > 0 else -x)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use where(condition, x, y), maximum(x, y) or minimum(x, y)""",
    )
