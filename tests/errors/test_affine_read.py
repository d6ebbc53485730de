"""A diagonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.einsum("ii->i", x)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_affine_read(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "affine-read",
        "function(Matrix(64, 64))",
        """\
SpecError[affine-read]: x[i, i] does not have one dim of its own for each dimension
  --> test_affine_read.py:18:12
18 |     return function(Matrix(64, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
fix: name each dimension differently""",
    )
