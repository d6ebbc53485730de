"""A mean over a dim whose extent is a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, symbol


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.mean(x, "n")


def wrong() -> Any:
    return function(Matrix(64, symbol("N")))


def test_symbolic_mean(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "symbolic-mean",
        'mean(x, "n")',
        """\
SpecError[symbolic-mean]: a mean over n divides by N, which is not known
  --> test_symbolic_mean.py:14:15
14 |     return fi.mean(x, "n")
   |               ^^^^^^^^^^^^
fix: give these dims numbers, or divide a sum by a scalar of the call""",
    )
