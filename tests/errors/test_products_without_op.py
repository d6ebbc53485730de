"""products() with two sums and no op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    x, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "w", "u", "y"))
    return products(y, (x, w), (x, u))


def test_products_without_op(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "products(y, (x, w), (x, u))",
        """\
SpecError[bad-op]: products() has 2 sums and no op that combines them
  --> test_products_without_op.py:13:12
13 |     return products(y, (x, w), (x, u))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: op=lambda x, y: ..., or one list of pairs whose products are added""",
    )
