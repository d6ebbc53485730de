"""The operator @ between expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: x @ x, memory=RF)


def test_expression_operator(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: x @ x, memory=RF)",
        """\
SpecError[bad-op]: x @ y has no meaning for expressions such as acc
  --> test_expression_operator.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: x @ x, memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: an expression is one element: multiply matrices by a product of their own""",
    )
