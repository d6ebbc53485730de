"""A line of packed elements that ends inside a byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 33, "i4", layout="TN")


def test_packed_extent(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "packed-extent",
        'matmul(64, 64, 33, "i4", layout="TN")',
        """\
SpecError[packed-extent]: a line of 33 elements of i4 does not fill its bytes, which hold 2 each
  --> test_packed_extent.py:12:12
12 |     return matmul(64, 64, 33, "i4", layout="TN")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use a multiple of 2; of a size, symbol(name, multiple_of=2)""",
    )
