"""A symbol whose name is no identifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import symbol


def wrong() -> Any:
    return symbol("M[0]")


def test_bad_name_of_symbol(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-name",
        'symbol("M[0]")',
        """\
SpecError[bad-name]: a size cannot be called 'M[0]': it is no identifier of ASCII letters, digits and underscores
  --> test_bad_name_of_symbol.py:12:12
12 |     return symbol("M[0]")
   |            ^^^^^^^^^^^^^^
fix: rename it, for example M_0""",
    )
