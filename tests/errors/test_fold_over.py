"""A sum over a dim that the expression does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x, "k")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_fold_over(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-over",
        'sum(x, "k")',
        """\
SpecError[fold-over]: sum cannot fold over k: the expression has the dims m, n
  --> test_fold_over.py:14:15
14 |     return fi.sum(x, "k")
   |               ^^^^^^^^^^^
fix: write over="m", or other dims of the expression""",
    )
