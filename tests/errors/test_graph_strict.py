"""A strict plan of a graph with an operation that no kernel computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fireiron as fi

graph = fi.trace_graph(lambda x: np.cumsum(x, axis=0), (4, 32), name="sums")


def wrong() -> Any:
    return graph.plan(strict=True)


def test_graph_strict(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-strict",
        "plan(strict=True)",
        """\
UsageError[graph-strict]: %1 of sums, foreign: no kernel of fireiron computes it
  --> test_graph_strict.py:16:18
16 |     return graph.plan(strict=True)
   |                  ^^^^^^^^^^^^^^^^^
fix: leave strict out: NumPy or torch then computes operations without a kernel""",
    )
