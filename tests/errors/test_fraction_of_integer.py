"""A fraction in an expression of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, "i8").tile(128, 128).to(Block).epilog(lambda acc: acc * 0.5)


def test_fraction_of_integer(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fraction-of-integer",
        "epilog(lambda acc: acc * 0.5)",
        """\
SpecError[fraction-of-integer]: 0.5 is no i32
  --> test_fraction_of_integer.py:12:65
12 |     return matmul(512, 512, 512, "i8").tile(128, 128).to(Block).epilog(lambda acc: acc * 0.5)
   |                                                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block
fix: use scale(number), or saturate('f32') before it""",
    )
