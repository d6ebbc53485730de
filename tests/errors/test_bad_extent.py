"""A product with an extent of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 0, 64)


def test_bad_extent(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        "matmul(64, 0, 64)",
        """\
SpecError[bad-extent]: a matrix of 64x0 has no elements
  --> test_bad_extent.py:12:12
12 |     return matmul(64, 0, 64)
   |            ^^^^^^^^^^^^^^^^^
fix: extents start at 1""",
    )
