"""A batch of A without a batch of B."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import MatMul, Matrix


def wrong() -> Any:
    return MatMul(Matrix(64, 32, batch=2), Matrix(32, 48), Matrix(64, 48))


def test_rank_mismatch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        "MatMul(Matrix(64, 32, batch=2), Matrix(32, 48), Matrix(64, 48))",
        """\
SpecError[shape-mismatch]: A[2, 64, 32].f32.GL, B[32, 48].f32.GL and C[64, 48].f32.GL differ in rank
  --> test_rank_mismatch.py:12:12
12 |     return MatMul(Matrix(64, 32, batch=2), Matrix(32, 48), Matrix(64, 48))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give all three a batch, or none""",
    )
