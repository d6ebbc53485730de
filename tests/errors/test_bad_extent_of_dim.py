"""A dim with an extent of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x * fi.where(fi.dim("p", 0) < 1, 1.0, 2.0)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_bad_extent_of_dim(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        'dim("p", 0)',
        """\
SpecError[bad-extent]: dim p has the extent 0
  --> test_bad_extent_of_dim.py:14:28
14 |     return x * fi.where(fi.dim("p", 0) < 1, 1.0, 2.0)
   |                            ^^^^^^^^^^^
fix: give a whole number of 1 or more, or symbols""",
    )
