"""A symbol whose bounds and multiple no number satisfies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import symbol


def wrong() -> Any:
    return symbol("M", multiple_of=0)


def test_bad_symbol(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-symbol",
        'symbol("M", multiple_of=0)',
        """\
SpecError[bad-symbol]: M has no value: a multiple of 0 between 1 and 1073741824
  --> test_bad_symbol.py:12:12
12 |     return symbol("M", multiple_of=0)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give multiple_of= of 1 and more, and a range up to 2**31 - 1 that holds a multiple of it""",
    )
