"""A number as field of a record that takes a tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Strided


def wrong() -> Any:
    return Strided(4, 8)


def test_field_kind(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        "Strided(4, 8)",
        """\
SpecError[argument-kind]: rows= of Strided takes a tuple of 2 numbers, not 4
  --> test_field_kind.py:12:12
12 |     return Strided(4, 8)
   |            ^^^^^^^^^^^^^
fix: give a tuple of 2 numbers""",
    )
