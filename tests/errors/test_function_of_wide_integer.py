"""exp of an integer of 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.exp(x)


def wrong() -> Any:
    return function(Matrix(64, 64, "i64", name="x"))


def test_function_of_wide_integer(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fraction-of-integer",
        'function(Matrix(64, 64, "i64", name="x"))',
        """\
SpecError[fraction-of-integer]: exp of i64 gives fractions, which i64 does not hold
  --> test_function_of_wide_integer.py:18:12
18 |     return function(Matrix(64, 64, "i64", name="x"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: cast to f32 before it""",
    )
