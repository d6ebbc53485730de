"""An unknown element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "f7")


def test_unknown_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-dtype",
        'matmul(64, 64, 64, "f7")',
        """\
SpecError[unknown-dtype]: unknown dtype 'f7'
  --> test_unknown_dtype.py:12:12
12 |     return matmul(64, 64, 64, "f7")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
fix: use one of f64, f32, f16, bf16, i64, i32, i8, u8, tf32, e4m3, e5m2, i4, u4, b1""",
    )
