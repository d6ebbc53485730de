"""products() with outputs of different shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    x, w, y = (Matrix(64, 64, name=name) for name in ("x", "w", "y"))
    return products((y, Matrix(64, 32, name="z")), (x, w), op=lambda acc: (acc, acc + 1))


def test_products_outputs(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        'products((y, Matrix(64, 32, name="z")), (x, w), op=lambda acc: (acc, acc + 1))',
        """\
SpecError[shape-mismatch]: outputs differ: y[64, 64].f32.GL and z[64, 32].f32.GL
  --> test_products_outputs.py:13:12
13 |     return products((y, Matrix(64, 32, name="z")), (x, w), op=lambda acc: (acc, acc + 1))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give all outputs the same shape""",
    )
