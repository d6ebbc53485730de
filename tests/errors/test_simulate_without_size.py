"""A simulation without arrays and without the value of a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import symbol


def wrong(product: Callable[..., Any]) -> Any:
    return product(symbol("M"), 64, 16).simulate()


def test_simulate_without_size(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "unknown-size",
        "simulate()",
        """\
UsageError[unknown-size]: no inputs and no value for the size M
  --> test_simulate_without_size.py:12:41
12 |     return product(symbol("M"), 64, 16).simulate()
   |                                         ^^^^^^^^^^
fix: pass M=..., or arrays""",
    )
