"""x // 4 of a value that is no index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x // 2


def wrong() -> Any:
    return function(Matrix(64, 64))


@fi.program(x="m n")
def remainder(x: Any) -> Any:
    return fi.where(fi.index("m") % 0, x, 0)


def by_nothing() -> Any:
    return remainder(Matrix(64, 64))


def test_index_division(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "index-division",
        "x // 2",
        """\
SpecError[index-division]: // takes an index, and this is a value
  --> test_index_division.py:14:12
14 |     return x // 2
   |            ^^^^^^
fix: divide an index by a whole number of 1 or more: index("i") // 4; values take floor(x / y)""",
    )


def test_division_by_zero(refused: Callable[..., Any]) -> None:
    refused(
        by_nothing,
        "index-division",
        'fi.index("m") % 0',
        """\
SpecError[index-division]: % by 0
  --> test_index_division.py:23:21
23 |     return fi.where(fi.index("m") % 0, x, 0)
   |                     ^^^^^^^^^^^^^^^^^
fix: divide an index by a whole number of 1 or more: index("i") // 4; values take floor(x / y)""",
    )
