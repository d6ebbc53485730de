"""A tensor with the name of a word of CUDA C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix


def wrong() -> Any:
    return Matrix(64, 64, name="int")


def test_bad_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-name",
        'Matrix(64, 64, name="int")',
        """\
SpecError[bad-name]: a tensor cannot be called 'int': CUDA C++ has a meaning for it
  --> test_bad_name.py:12:12
12 |     return Matrix(64, 64, name="int")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: rename it, for example int_""",
    )
