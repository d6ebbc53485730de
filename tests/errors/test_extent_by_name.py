"""A text as extent, instead of a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul("M", 64, 64)


def test_extent_by_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        'matmul("M", 64, 64)',
        """\
SpecError[bad-extent]: an extent is 'M', which is no whole number
  --> test_extent_by_name.py:12:12
12 |     return matmul("M", 64, 64)
   |            ^^^^^^^^^^^^^^^^^^^
fix: give a whole number, or a size of the call: symbol("M")""",
    )
