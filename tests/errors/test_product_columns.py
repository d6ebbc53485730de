"""Rows of a product that do not fit into the registers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, Vector
from fireiron.schedules import product_rows


def wrong() -> Any:
    x, w, residual = Matrix(64, 64, "f16"), Matrix(4096, 64, "f16", name="w"), Matrix(64, 4096, "f16", name="r")
    bias, gain, shift = (Vector(4096, "f16", name=name) for name in ("b", "g", "s"))
    return product_rows.wgmma(product_rows.add_layernorm(x, w, bias, residual, gain, shift))


def test_product_columns(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "product-columns",
        "wgmma(product_rows.add_layernorm(x, w, bias, residual, gain, shift))",
        """\
FireironError[product-columns]: no cluster holds rows of 4096 columns in tiles of 8: 192 columns a block, 8 blocks of \
a cluster
  --> test_product_columns.py:15:25
15 |     return product_rows.wgmma(product_rows.add_layernorm(x, w, bias, residual, gain, shift))
   |                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: norm the rows by another kernel, or give a number of columns that such tiles divide""",
    )
