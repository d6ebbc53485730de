"""The product "xor" of i8; it is for bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "i8", product="xor")


def test_unknown_product(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-product",
        'matmul(64, 64, 64, "i8", product="xor")',
        """\
SpecError[unknown-product]: no product 'xor' of i8
  --> test_unknown_product.py:12:12
12 |     return matmul(64, 64, 64, "i8", product="xor")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use product='mul'""",
    )
