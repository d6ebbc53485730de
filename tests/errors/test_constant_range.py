"""A number that an integer type does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import B, clamp_to, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, "u8").prolog(B, clamp_to(-1, 2))


def test_constant_range(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "constant-range",
        "prolog(B, clamp_to(-1, 2))",
        """\
SpecError[constant-range]: -1 is no u8, which holds 0 to 255
  --> test_constant_range.py:12:40
12 |     return matmul(512, 512, 512, "u8").prolog(B, clamp_to(-1, 2))
   |                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel
fix: give a number of these, or use saturate('i32') before it""",
    )
