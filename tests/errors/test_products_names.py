"""Products with two operands of one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    x, w, y = (Matrix(64, 64, name=name) for name in ("x", "w", "y"))
    return products(y, [(x, w), (Matrix(64, 32, name="x"), Matrix(32, 64, name="u"))])


def test_products_names(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "same-name",
        'products(y, [(x, w), (Matrix(64, 32, name="x"), Matrix(32, 64, name="u"))])',
        """\
SpecError[same-name]: two operands are named x
  --> test_products_names.py:13:12
13 |     return products(y, [(x, w), (Matrix(64, 32, name="x"), Matrix(32, 64, name="u"))])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name each differently: Matrix(..., name='X')""",
    )
