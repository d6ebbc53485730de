"""Ends of groups in f32; they must be i32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import MatMul, Matrix, Vector


def wrong() -> Any:
    return MatMul(Matrix(64, 32), Matrix(32, 48, batch=3), Matrix(64, 48), groups=Vector(3, "f32", name="ends"))


def test_group_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-dtype",
        'MatMul(Matrix(64, 32), Matrix(32, 48, batch=3), Matrix(64, 48), groups=Vector(3, "f32", name="ends"))',
        """\
SpecError[group-dtype]: ends[3].f32.GL holds where groups end as f32, and kernels read it as i32
  --> test_group_dtype.py:12:12
12 |     return MatMul(Matrix(64, 32), Matrix(32, 48, batch=3), Matrix(64, 48), groups=Vector(3, "f32", name="ends"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give Vector(3, "i32", name='ends')""",
    )
