"""A matrix of an unknown element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix


def wrong() -> Any:
    return Matrix(64, 64, "float7")


def test_unknown_dtype_of_matrix(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-dtype",
        'Matrix(64, 64, "float7")',
        """\
SpecError[unknown-dtype]: unknown dtype 'float7'
  --> test_unknown_dtype_of_matrix.py:12:12
12 |     return Matrix(64, 64, "float7")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
fix: use one of f64, f32, f16, bf16, i64, i32, i8, u8, tf32, e4m3, e5m2, i4, u4, b1""",
    )
