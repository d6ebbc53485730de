"""A pooling, given to the schedule of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv, reductions


def wrong() -> Any:
    return reductions.reduction(conv.max_pool2d(tensor(1, 8, 8, 16), 3, 1, 1))


def test_reduction_windows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "reduction-dims",
        "reduction(conv.max_pool2d(tensor(1, 8, 8, 16), 3, 1, 1))",
        """\
FireironError[reduction-dims]: reductions.reduction folds dims that no output has, and max_pool2d reads windows of x
  --> test_reduction_windows.py:13:23
13 |     return reductions.reduction(conv.max_pool2d(tensor(1, 8, 8, 16), 3, 1, 1))
   |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use rows.row for rows, or write the chain: tile(...).to(Block), split(...), load(...), done()""",
    )
