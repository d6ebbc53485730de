"""A program called with two arrays of one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n", y="m n")
def function(x: Any, y: Any) -> Any:
    return x + y


def wrong() -> Any:
    return function(Matrix(64, 64, name="A"), Matrix(64, 64, name="A"))


def test_program_same_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "same-name",
        'function(Matrix(64, 64, name="A"), Matrix(64, 64, name="A"))',
        """\
SpecError[same-name]: two inputs are named A
  --> test_program_same_name.py:18:12
18 |     return function(Matrix(64, 64, name="A"), Matrix(64, 64, name="A"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name each differently""",
    )
