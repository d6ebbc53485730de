"""A tensor with an operand's name and another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, Block, Matrix, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(Matrix(8, 8, name="A"), SH)


def test_other_tensor(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "other-tensor",
        'load(Matrix(8, 8, name="A"), SH)',
        """\
DecompositionError[other-tensor]: A[8, 8].f32.GL is not the operand of MatMul 32x32x8 of that name, which is A[64, 64].f32.GL
  --> test_other_tensor.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(Matrix(8, 8, name="A"), SH)
   |                                                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: give the spec's own tensor, or its name: 'A'""",  # noqa: E501,
    )
