"""Dropout with keep=0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, dropout


def wrong() -> Any:
    return dropout(Matrix(64, 64, "i8", name="mask"), 0.0)


def test_dropout_keep(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dropout-keep",
        'dropout(Matrix(64, 64, "i8", name="mask"), 0.0)',
        """\
SpecError[dropout-keep]: dropout keeps 0.0 of the values
  --> test_dropout_keep.py:12:12
12 |     return dropout(Matrix(64, 64, "i8", name="mask"), 0.0)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a part above 0, up to 1""",
    )
