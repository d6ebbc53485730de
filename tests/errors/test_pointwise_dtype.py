"""An op that adds values of two element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, Pointwise


def wrong() -> Any:
    return Pointwise(lambda x, y: x + y, Matrix(64, 32, "f16"), Matrix(64, 32), Matrix(64, 32))


def test_pointwise_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dtype-mismatch",
        'Pointwise(lambda x, y: x + y, Matrix(64, 32, "f16"), Matrix(64, 32), Matrix(64, 32))',
        """\
SpecError[dtype-mismatch]: add of f16 and f32
  --> test_pointwise_dtype.py:12:12
12 |     return Pointwise(lambda x, y: x + y, Matrix(64, 32, "f16"), Matrix(64, 32), Matrix(64, 32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: cast one side""",
    )
