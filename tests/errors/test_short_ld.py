"""ld= shorter than a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix


def wrong() -> Any:
    return Matrix(64, 64, ld=60)


def test_short_ld(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        "Matrix(64, 64, ld=60)",
        """\
SpecError[bad-extent]: ld=60 is shorter than the 64 elements of a line
  --> test_short_ld.py:12:12
12 |     return Matrix(64, 64, ld=60)
   |            ^^^^^^^^^^^^^^^^^^^^^
fix: give ld=64 or more""",
    )
