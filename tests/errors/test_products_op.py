"""An op of two outputs that returns one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, products


def wrong() -> Any:
    x, w, y, z = (Matrix(64, 64, name=name) for name in ("x", "w", "y", "z"))
    return products((y, z), (x, w), op=lambda acc: acc + 1)


def test_products_op(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "products((y, z), (x, w), op=lambda acc: acc + 1)",
        """\
SpecError[bad-op]: the op returned 1 expression for 2 outputs
  --> test_products_op.py:13:12
13 |     return products((y, z), (x, w), op=lambda acc: acc + 1)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: return an expression of the sums for each output""",
    )
