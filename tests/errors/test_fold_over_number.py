"""A sum over an axis's number instead of a dim's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x, 1)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_fold_over_number(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        "sum(x, 1)",
        """\
SpecError[argument-kind]: sum takes a text or a tuple (a text each), not 1
  --> test_fold_over_number.py:14:15
14 |     return fi.sum(x, 1)
   |               ^^^^^^^^^
fix: give a text in quotes, or a tuple (a text each)""",
    )
