"""A tensor with the name of a type that kernels declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Vector


def wrong() -> Any:
    return Vector(64, name="half")


def test_bad_name_of_type(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-name",
        'Vector(64, name="half")',
        """\
SpecError[bad-name]: a tensor cannot be called 'half': kernels have a type of that name
  --> test_bad_name_of_type.py:12:12
12 |     return Vector(64, name="half")
   |            ^^^^^^^^^^^^^^^^^^^^^^^
fix: rename it, for example half_""",
    )
