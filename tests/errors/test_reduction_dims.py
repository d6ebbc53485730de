"""A softmax, given to the schedule of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix
from fireiron.schedules import reductions, rows


def wrong() -> Any:
    return reductions.reduction(rows.softmax(Matrix(64, 512)))


def test_reduction_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "reduction-dims",
        "reduction(rows.softmax(Matrix(64, 512)))",
        """\
FireironError[reduction-dims]: reductions.reduction folds dims that no output has, and softmax keeps n
  --> test_reduction_dims.py:13:23
13 |     return reductions.reduction(rows.softmax(Matrix(64, 512)))
   |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use rows.row for rows, or write the chain: tile(...).to(Block), split(...), load(...), done()""",
    )
