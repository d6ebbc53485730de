"""More ends than groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import MatMul, Matrix, Vector


def wrong() -> Any:
    return MatMul(Matrix(64, 32), Matrix(32, 48, batch=3), Matrix(64, 48), groups=Vector(4, "i32", name="ends"))


def test_group_count(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-count",
        'MatMul(Matrix(64, 32), Matrix(32, 48, batch=3), Matrix(64, 48), groups=Vector(4, "i32", name="ends"))',
        """\
SpecError[group-count]: ends[4].i32.GL and B[3, 32, 48].f32.GL differ in the number of groups
  --> test_group_count.py:12:12
12 |     return MatMul(Matrix(64, 32), Matrix(32, 48, batch=3), Matrix(64, 48), groups=Vector(4, "i32", name="ends"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give one end for each matrix of B: Vector(3, "i32", name='ends')""",
    )
