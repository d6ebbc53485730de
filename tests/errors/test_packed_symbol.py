"""A symbolic extent of packed elements that may end inside a byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul, symbol


def wrong() -> Any:
    return matmul(64, 64, symbol("K"), "b1", layout="TN")


def test_packed_symbol(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "packed-extent",
        'matmul(64, 64, symbol("K"), "b1", layout="TN")',
        """\
SpecError[packed-extent]: a line of K elements of b1 does not fill its bytes, which hold 8 each
  --> test_packed_symbol.py:12:12
12 |     return matmul(64, 64, symbol("K"), "b1", layout="TN")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use a multiple of 8; of a size, symbol(name, multiple_of=8)""",
    )
