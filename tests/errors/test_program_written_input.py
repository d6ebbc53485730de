"""A step with the name of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return (x + 1.0).named("x")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_program_written_input(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "same-name",
        "function(Matrix(64, 64))",
        """\
SpecError[same-name]: step x writes x, which another array is called already
  --> test_program_written_input.py:18:12
18 |     return function(Matrix(64, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
fix: rename one of them""",
    )
