"""A program that returns nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> None:
    del x


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_program_returns_nothing(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "function(Matrix(64, 64))",
        """\
SpecError[bad-op]: function returned None
  --> test_program_returns_nothing.py:18:12
18 |     return function(Matrix(64, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
fix: return an expression of its arrays, or a tuple of expressions""",
    )
