"""A custom function whose name is no identifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import custom


def wrong() -> Any:
    return custom("2x", "2 * x", lambda x: 2 * x)


def test_custom_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-custom",
        'custom("2x", "2 * x", lambda x: 2 * x)',
        """\
SpecError[bad-custom]: custom('2x', '2 * x') of ('x',) is no function
  --> test_custom_name.py:12:12
12 |     return custom("2x", "2 * x", lambda x: 2 * x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give identifiers for the name and the parameters, and C++ that computes something""",
    )
