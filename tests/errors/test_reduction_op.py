"""Reduction() with an unknown op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, Reduction, Vector


def wrong() -> Any:
    return Reduction("nor", Matrix(64, 32), Vector(64, name="y"))


def test_reduction_op(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "reduction-op",
        'Reduction("nor", Matrix(64, 32), Vector(64, name="y"))',
        """\
SpecError[reduction-op]: no fold is called 'nor'
  --> test_reduction_op.py:12:12
12 |     return Reduction("nor", Matrix(64, 32), Vector(64, name="y"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use add, max, min, mul, and, or, or a function: lambda x, over: ...""",
    )
