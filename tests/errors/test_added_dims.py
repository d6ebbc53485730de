"""A value with a dim that the subscripts of an addition lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Vector


@fi.program(ids="e", x="e n", sums="v n")
def function(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids, 0].add(x)


def wrong() -> Any:
    return function(Vector(64, "i32", name="ids"), Matrix(64, 8), Matrix(10, 8, name="sums"))


def test_added_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "added-dims",
        "add(x)",
        """\
SpecError[added-dims]: the value has the dim n, which sums[ids[e], 0] lacks
  --> test_added_dims.py:14:28
14 |     return sums.at[ids, 0].add(x)
   |                            ^^^^^^
fix: give the sum over it: sum(x, "n"), or name the dim in the subscripts""",
    )
