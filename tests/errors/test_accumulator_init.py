"""A fraction as the first value of sums of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(memory=RF, init=2.5)


def test_accumulator_init(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "accumulator-init",
        "epilog(memory=RF, init=2.5)",
        """\
DecompositionError[accumulator-init]: an accumulator of i32 cannot start at 2.5
  --> test_accumulator_init.py:12:60
12 |     return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(memory=RF, init=2.5)
   |                                                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: give a whole number from -2147483648 to 2147483647""",
    )
