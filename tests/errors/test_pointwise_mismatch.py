"""An input that does not broadcast over the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, Pointwise


def wrong() -> Any:
    return Pointwise(lambda x, y: x + y, Matrix(64, 32), Matrix(1, 16), Matrix(64, 32))


def test_pointwise_mismatch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        "Pointwise(lambda x, y: x + y, Matrix(64, 32), Matrix(1, 16), Matrix(64, 32))",
        """\
SpecError[shape-mismatch]: X1[1, 16].f32.GL does not broadcast over Y[64, 32].f32.GL
  --> test_pointwise_mismatch.py:12:12
12 |     return Pointwise(lambda x, y: x + y, Matrix(64, 32), Matrix(1, 16), Matrix(64, 32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: extents must be equal, or 1 where a value repeats""",
    )
