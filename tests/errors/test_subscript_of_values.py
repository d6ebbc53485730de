"""A subscript that is a value instead of an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x[:, x * 2.0]


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_subscript_of_values(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "affine-subscript",
        "x[:, x * 2.0]",
        """\
SpecError[affine-subscript]: the subscript x[m, n] * 2 is not affine in dims
  --> test_subscript_of_values.py:14:12
14 |     return x[:, x * 2.0]
   |            ^^^^^^^^^^^^^
fix: use sums of index("i") times a number, with // and % by numbers; `:` keeps a dimension""",
    )
