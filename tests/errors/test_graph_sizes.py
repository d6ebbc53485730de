"""A plan with more sizes than the graph has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron.graph.sizes import symbolic


def made(*sizes: int) -> Any:
    return fi.trace_graph(lambda x: x + 1, (*sizes, 64), name="plus")


def wrong() -> Any:
    return symbolic(made, (8,), "sm_90a").sized(5, 7)  # type: ignore[union-attr]


def wrong_too() -> Any:
    return symbolic(made, (8, 20, 3), "sm_90a")


def wrong_as_well() -> Any:
    return made(8).plan("sm_90a").sized(9)


def test_graph_sizes(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-sizes",
        "sized(5, 7)",
        """\
UsageError[graph-sizes]: the plan of plus has 1 size that may change: batch; 2 given
  --> test_graph_sizes.py:17:43
17 |     return symbolic(made, (8,), "sm_90a").sized(5, 7)  # type: ignore[union-attr]
   |                                           ^^^^^^^^^^^
fix: write sized(batch)""",
    )


def test_three_sizes(refused: Callable[..., Any]) -> None:
    refused(
        wrong_too,
        "graph-sizes",
        'symbolic(made, (8, 20, 3), "sm_90a")',
        """\
UsageError[graph-sizes]: a plan takes one or two sizes, not 3
  --> test_graph_sizes.py:21:12
21 |     return symbolic(made, (8, 20, 3), "sm_90a")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: make a plan for each value of the others""",
    )


def test_a_plan_of_numbers(refused: Callable[..., Any]) -> None:
    refused(
        wrong_as_well,
        "graph-sizes",
        "sized(9)",
        """\
UsageError[graph-sizes]: the plan of plus has 0 sizes that may change; 1 given
  --> test_graph_sizes.py:25:35
25 |     return made(8).plan("sm_90a").sized(9)
   |                                   ^^^^^^^^
fix: make the plan by symbolic(make, (batch, length))""",
    )
