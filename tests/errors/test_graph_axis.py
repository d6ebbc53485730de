"""A traced sum along an axis that the array does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def total(x: Any) -> Any:
    return x.sum(axis=2)


def wrong() -> Any:
    return fi.trace_graph(total, (64, 32))


def test_graph_axis(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-axis",
        "sum(axis=2)",
        """\
SpecError[graph-axis]: axis 2 of an array of rank 2
  --> test_graph_axis.py:12:14
12 |     return x.sum(axis=2)
   |              ^^^^^^^^^^^
fix: give axes from -2 to 1""",
    )
