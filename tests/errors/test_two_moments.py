"""A simulation with both at= and break_at=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(at="fma", break_at="store C")


def test_two_moments(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "two-moments",
        'simulate(at="fma", break_at="store C")',
        """\
UsageError[two-moments]: at= and break_at= both choose a moment
  --> test_two_moments.py:10:22
10 |     return product().simulate(at="fma", break_at="store C")
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give one of them""",
    )
