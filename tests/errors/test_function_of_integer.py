"""exp of an integer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul, sigmoid


def wrong() -> Any:
    return matmul(512, 512, 512, "i8").tile(128, 128).to(Block).epilog(sigmoid)


def test_function_of_integer(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fraction-of-integer",
        "epilog(sigmoid)",
        """\
SpecError[fraction-of-integer]: exp of i32 gives fractions, which i32 does not hold
  --> test_function_of_integer.py:12:65
12 |     return matmul(512, 512, 512, "i8").tile(128, 128).to(Block).epilog(sigmoid)
   |                                                                 ^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block
fix: use saturate('f32') before it""",
    )
