"""A tensor instead of an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Vector, matmul


def wrong() -> Any:
    bias = Vector(64, name="bias")
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(bias)  # pyright: ignore[reportArgumentType]


def test_epilog_no_op(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(bias)",
        """\
SpecError[bad-op]: bias[64].f32.GL is no op
  --> test_epilog_no_op.py:13:54
13 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(bias)  # pyright: ignore[reportArgumentType]
   |                                                      ^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: give functions of the accumulator: relu, add(bias), lambda x: x * 2""",
    )
