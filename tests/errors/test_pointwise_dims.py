"""A program with folds, given to the schedule of pointwise programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix
from fireiron.schedules import pointwise, rows


def wrong() -> Any:
    return pointwise.pointwise(rows.softmax(Matrix(64, 512)))


def test_pointwise_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pointwise-dims",
        "pointwise(rows.softmax(Matrix(64, 512)))",
        """\
FireironError[pointwise-dims]: pointwise.pointwise schedules programs without folds, and softmax folds n
  --> test_pointwise_dims.py:13:22
13 |     return pointwise.pointwise(rows.softmax(Matrix(64, 512)))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use rows.row or reductions.reduction, or write the chain: tile(...).to(Block), load(...), done()""",
    )
