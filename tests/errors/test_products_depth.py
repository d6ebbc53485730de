"""A product whose operands have different K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    x, w, y = (Matrix(9, 9, name=name) for name in ("x", "w", "y"))
    return products(y, [(x, w), (x, Matrix(3, 9, name="u"))])


def test_products_depth(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        'products(y, [(x, w), (x, Matrix(3, 9, name="u"))])',
        """\
SpecError[shape-mismatch]: columns of x and rows of u differ: 9 and 3 in x[9, 9].f32.GL, u[3, 9].f32.GL, y[9, 9].f32.GL
  --> test_products_depth.py:13:12
13 |     return products(y, [(x, w), (x, Matrix(3, 9, name="u"))])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same extent""",
    )
