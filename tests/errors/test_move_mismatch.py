"""A Move between tensors of different shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, Move


def wrong() -> Any:
    return Move(Matrix(64, 32), Matrix(32, 64))


def test_move_mismatch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        "Move(Matrix(64, 32), Matrix(32, 64))",
        """\
SpecError[shape-mismatch]: a Move keeps the shape, but X[64, 32].f32.GL and Y[32, 64].f32.GL differ
  --> test_move_mismatch.py:12:12
12 |     return Move(Matrix(64, 32), Matrix(32, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same shape""",
    )
