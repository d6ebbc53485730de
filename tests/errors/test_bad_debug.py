"""A debug op without a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import debug


def wrong() -> Any:
    return debug("")


def test_bad_debug(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-debug",
        'debug("")',
        """\
SpecError[bad-debug]: debug('') names no value
  --> test_bad_debug.py:12:12
12 |     return debug("")
   |            ^^^^^^^^^
fix: give a name that prints on one line, and coordinates of 0 and more""",
    )
