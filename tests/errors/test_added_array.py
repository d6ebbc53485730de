"""Additions to the elements of an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Vector


@fi.program(ids="e", x="e n", sums="v n")
def function(ids: Any, x: Any, sums: Any) -> Any:
    return (sums * 2).at[ids, :].add(x)


def wrong() -> Any:
    return function(Vector(64, "i32", name="ids"), Matrix(64, 8), Matrix(10, 8, name="sums"))


def test_added_array(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "added-array",
        "(sums * 2).at[ids, :]",
        """\
SpecError[added-array]: elements of an array of the call are written or added to, and this is an expression
  --> test_added_array.py:14:12
14 |     return (sums * 2).at[ids, :].add(x)
   |            ^^^^^^^^^^^^^^^^^^^^^
fix: make the array a parameter of the function: sums.at[ids, :].add(x)""",
    )
