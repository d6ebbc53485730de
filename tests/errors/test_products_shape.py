"""products() with products of different shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    x, h, w, y = (Matrix(64, 64, name=name) for name in ("x", "h", "w", "y"))
    return products(y, [(x, w), (h, Matrix(64, 32, name="u"))])


def test_products_shape(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        'products(y, [(x, w), (h, Matrix(64, 32, name="u"))])',
        """\
SpecError[shape-mismatch]: columns of u and y differ: 32 and 64 in h[64, 64].f32.GL, u[64, 32].f32.GL, y[64, 64].f32.GL
  --> test_products_shape.py:13:12
13 |     return products(y, [(x, w), (h, Matrix(64, 32, name="u"))])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same extent""",
    )
