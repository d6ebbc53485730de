"""Operands whose extents of K differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import MatMul, Matrix


def wrong() -> Any:
    return MatMul(Matrix(64, 32), Matrix(16, 48), Matrix(64, 48))


def test_shape_mismatch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        "MatMul(Matrix(64, 32), Matrix(16, 48), Matrix(64, 48))",
        """\
SpecError[shape-mismatch]: columns of A and rows of B differ: 32 and 16 in A[64, 32].f32.GL, B[16, 48].f32.GL, C[64, 48].f32.GL
  --> test_shape_mismatch.py:12:12
12 |     return MatMul(Matrix(64, 32), Matrix(16, 48), Matrix(64, 48))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same extent""",  # noqa: E501
    )
