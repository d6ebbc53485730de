"""outside() of an expression; it takes an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.outside(x * 2.0, 1.0)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_outside_computed(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "outside-computed",
        "outside(x * 2.0, 1.0)",
        """\
SpecError[outside-computed]: outside() takes an array, and this is an expression
  --> test_outside_computed.py:14:15
14 |     return fi.outside(x * 2.0, 1.0)
   |               ^^^^^^^^^^^^^^^^^^^^^
fix: use where(condition, expression, number)""",
    )
