"""A softmax, given to the schedule of products with folds of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import product_rows, rows


def wrong() -> Any:
    return product_rows.mma(rows.softmax(tensor(64, 64, dtype="f16")))


def test_product_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "product-rows",
        'mma(rows.softmax(tensor(64, 64, dtype="f16")))',
        """\
FireironError[product-rows]: softmax is no product of two arrays whose columns, of a known number, other steps fold
  --> test_product_rows.py:13:25
13 |     return product_rows.mma(rows.softmax(tensor(64, 64, dtype="f16")))
   |                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a program such as product_rows.add_layernorm(x, w, bias, residual, gain, shift)""",
    )
