"""A sum over no dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x, "")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_fold_over_nothing(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-over",
        'sum(x, "")',
        """\
SpecError[fold-over]: sum folds over nothing
  --> test_fold_over_nothing.py:14:15
14 |     return fi.sum(x, "")
   |               ^^^^^^^^^^
fix: write over="m", or other dims of the expression""",
    )
