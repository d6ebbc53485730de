"""A sum over every dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x, "m n")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_fold_over_every_dim(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-over",
        'sum(x, "m n")',
        """\
SpecError[fold-over]: sum folds every dim of the expression, and its result has none
  --> test_fold_over_every_dim.py:14:15
14 |     return fi.sum(x, "m n")
   |               ^^^^^^^^^^^^^
fix: give the array one more dim, of extent 1, and keep it""",
    )
