"""Additions of fractions to integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Vector


@fi.program(ids="e", x="e n", sums="v n")
def function(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids, :].add(x * 0.5)


def wrong() -> Any:
    return function(Vector(64, "i32", name="ids"), Matrix(64, 8), Matrix(10, 8, "i32", name="sums"))


def test_added_fraction(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "added-fraction",
        "add(x * 0.5)",
        """\
SpecError[added-fraction]: sums holds i32, and the value is f32
  --> test_added_fraction.py:14:28
14 |     return sums.at[ids, :].add(x * 0.5)
   |                            ^^^^^^^^^^^^
fix: round it: floor(x).cast("i32"), or let sums be floats""",
    )
