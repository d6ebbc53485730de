"""A result of packed elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "u4", out="u4", layout="TN")


def test_packed_result(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "packed-result",
        'matmul(64, 64, 64, "u4", out="u4", layout="TN")',
        """\
SpecError[packed-result]: C[64, 64].u4.GL is written, and 2 elements of u4 share a byte
  --> test_packed_result.py:12:12
12 |     return matmul(64, 64, 64, "u4", out="u4", layout="TN")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: write i8 or i32, and let the reader of C pack it""",
    )
