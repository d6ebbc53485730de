"""A program without normed rows, given to the schedule of products of normed rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix
from fireiron.schedules import normed_products, rows


def wrong() -> Any:
    return normed_products.mma(rows.softmax(Matrix(64, 512)))


def test_normed_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "normed-rows",
        "mma(rows.softmax(Matrix(64, 512)))",
        """\
FireironError[normed-rows]: normed_products.mma multiplies a step named normed, and softmax has no product of one
  --> test_normed_rows.py:13:28
13 |     return normed_products.mma(rows.softmax(Matrix(64, 512)))
   |                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name the factor: einsum("mk,nk->mn", y.cast(w.dtype).named("normed"), w)""",
    )
