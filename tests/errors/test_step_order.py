"""A program that reads a value of another program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix

kept: list[Any] = []


@fi.program(x="m n")
def first(x: Any) -> Any:
    kept.append(fi.sum(x, "n"))
    return x * 2


@fi.program(y="m n")
def second(y: Any) -> Any:
    return y + kept[-1]


def wrong() -> Any:
    first(Matrix(64, 64))
    return second(Matrix(64, 64))


def test_step_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "step-order",
        "second(Matrix(64, 64))",
        """\
SpecError[step-order]: step sum reads x, which no step before it makes
  --> test_step_order.py:27:12
27 |     return second(Matrix(64, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^
fix: put the step that makes x before sum""",
    )
