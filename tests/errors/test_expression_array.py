"""A NumPy array in an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: x + np.ones(64), memory=RF)


def test_expression_array(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-operand",
        "epilog(lambda x: x + np.ones(64), memory=RF)",
        """\
SpecError[bad-operand]: an array of (64,) cannot take part in a pointwise expression
  --> test_expression_array.py:14:54
14 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: x + np.ones(64), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: pass it to the call by name, and give the op a parameter of that name: gemm(a, b, epilog=lambda acc, bias: acc + bias, bias=bias)""",  # noqa: E501
    )
