"""products() with an empty sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    return products(Matrix(64, 64, name="y"))


def test_products_none(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-products",
        'products(Matrix(64, 64, name="y"))',
        """\
SpecError[no-products]: a sum adds at least one product
  --> test_products_none.py:12:12
12 |     return products(Matrix(64, 64, name="y"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give pairs (A, B)""",
    )
