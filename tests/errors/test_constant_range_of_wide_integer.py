"""A number beyond 64 bits beside an i64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x + 2**63


def wrong() -> Any:
    return function(Matrix(64, 64, "i64", name="x"))


def test_constant_range_of_wide_integer(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "constant-range",
        'function(Matrix(64, 64, "i64", name="x"))',
        """\
SpecError[constant-range]: 9223372036854775808 is no i64, which holds -9223372036854775808 to 9223372036854775807
  --> test_constant_range_of_wide_integer.py:18:12
18 |     return function(Matrix(64, 64, "i64", name="x"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a number of these, or use saturate('f32') before it""",
    )
