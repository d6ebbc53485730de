"""An unknown kind of simplifications of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi

graph = fi.trace_graph(lambda x: x * 2, (4, 8), name="double")


def wrong() -> Any:
    return graph.optimised(fast=True)


def test_graph_rules(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-rules",
        "optimised(fast=True)",
        """\
UsageError[graph-rules]: no kind of rules is called 'fast'
  --> test_graph_rules.py:14:18
14 |     return graph.optimised(fast=True)
   |                  ^^^^^^^^^^^^^^^^^^^^
fix: use rounding=True or range=True""",
    )
