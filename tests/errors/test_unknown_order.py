"""An unknown order of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix


def wrong() -> Any:
    return Matrix(64, 64, "f32", "diagonal")


def test_unknown_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-layout",
        'Matrix(64, 64, "f32", "diagonal")',
        """\
SpecError[bad-layout]: unknown layout 'diagonal' of a matrix
  --> test_unknown_order.py:12:12
12 |     return Matrix(64, 64, "f32", "diagonal")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use RowMajor or ColMajor""",
    )
