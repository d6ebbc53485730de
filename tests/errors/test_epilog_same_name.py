"""An epilog with two operands of one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Vector, add, matmul


def wrong() -> Any:
    bias, full = Vector(64, name="bias"), Matrix(64, 64, name="bias")
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(bias), add(full))


def test_epilog_same_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "same-name",
        "epilog(add(bias), add(full))",
        """\
SpecError[same-name]: two operands are named bias: bias[64].f32.GL and bias[64, 64].f32.GL
  --> test_epilog_same_name.py:13:54
13 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(bias), add(full))
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: name each differently""",
    )
