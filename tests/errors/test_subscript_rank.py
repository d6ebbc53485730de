"""More subscripts than dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x[0, :, 1]


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_subscript_rank(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "subscript-rank",
        "x[0, :, 1]",
        """\
SpecError[subscript-rank]: 3 subscripts for 2 dimensions
  --> test_subscript_rank.py:14:12
14 |     return x[0, :, 1]
   |            ^^^^^^^^^^
fix: give one subscript for each dimension; one ... stands for those that are kept""",
    )
