"""The square root of an integer, as a power."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(lambda x: x**0.5, memory=RF)


def test_power_of_integer(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fraction-of-integer",
        "epilog(lambda x: x**0.5, memory=RF)",
        """\
SpecError[fraction-of-integer]: i32 ** 0.5 is no i32
  --> test_power_of_integer.py:12:60
12 |     return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(lambda x: x**0.5, memory=RF)
   |                                                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: give a whole number from 0 to 16, or use saturate('f32') before it""",
    )
