"""Batches of A and B that differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import MatMul, Matrix


def wrong() -> Any:
    return MatMul(Matrix(64, 32, batch=2), Matrix(32, 48, batch=3), Matrix(64, 48, batch=2))


def test_batch_differs(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        "MatMul(Matrix(64, 32, batch=2), Matrix(32, 48, batch=3), Matrix(64, 48, batch=2))",
        """\
SpecError[shape-mismatch]: batches of A and B differ: 2 and 3 in A[2, 64, 32].f32.GL, B[3, 32, 48].f32.GL, C[2, 64, 48].f32.GL
  --> test_batch_differs.py:12:12
12 |     return MatMul(Matrix(64, 32, batch=2), Matrix(32, 48, batch=3), Matrix(64, 48, batch=2))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same extent""",  # noqa: E501
    )
