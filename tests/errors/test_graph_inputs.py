"""A graph that is evaluated with arrays of another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fireiron as fi

graph = fi.trace_graph(lambda x: x * 2, (4, 8), name="double")


def wrong() -> Any:
    return graph.evaluate(np.ones((8, 4)))


def test_graph_inputs(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-inputs",
        "evaluate(np.ones((8, 4)))",
        """\
CallError[graph-inputs]: x has the shape (8, 4), and double was traced with (4, 8)
  --> test_graph_inputs.py:16:18
16 |     return graph.evaluate(np.ones((8, 4)))
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: trace a graph for each shape""",
    )
