"""A symbol whose typical value is none of its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import symbol


def wrong() -> Any:
    return symbol("M", multiple_of=16, typical=100)


def test_typical_symbol(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-symbol",
        'symbol("M", multiple_of=16, typical=100)',
        """\
SpecError[bad-symbol]: typical=100 is no value of M: a multiple of 16 between 1 and 1073741824
  --> test_typical_symbol.py:12:12
12 |     return symbol("M", multiple_of=16, typical=100)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a typical= that the kernel could be called with""",
    )
