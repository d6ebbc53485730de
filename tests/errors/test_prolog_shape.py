"""A prolog that reads a tensor which does not broadcast over the operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import B, Block, Matrix, matmul, scale


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).prolog(B, scale(Matrix(24, 64, name="scales")))


def test_prolog_shape(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "prolog-shape",
        'prolog(B, scale(Matrix(24, 64, name="scales")))',
        """\
DecompositionError[prolog-shape]: scales[24, 64].f32.GL does not repeat over B[64, 64].f32.GL: 24 values for 64
  --> test_prolog_shape.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).prolog(B, scale(Matrix(24, 64, name="scales")))
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: extents must be equal, or divide the operand's: one value for each group of neighbours""",
    )
