"""Groups with one matrix B for all groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import MatMul, Matrix, Vector


def wrong() -> Any:
    return MatMul(Matrix(64, 32), Matrix(32, 48), Matrix(64, 48), groups=Vector(3, "i32", name="ends"))


def test_group_ranks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-ranks",
        'MatMul(Matrix(64, 32), Matrix(32, 48), Matrix(64, 48), groups=Vector(3, "i32", name="ends"))',
        """\
SpecError[group-ranks]: A[64, 32].f32.GL, B[32, 48].f32.GL and C[64, 48].f32.GL are no groups: groups follow one another in the rows of A and C, and each has a matrix of B
  --> test_group_ranks.py:12:12
12 |     return MatMul(Matrix(64, 32), Matrix(32, 48), Matrix(64, 48), groups=Vector(3, "i32", name="ends"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give A and C no batch, and B one matrix a group: Matrix(K, N, batch=groups)""",  # noqa: E501
    )
