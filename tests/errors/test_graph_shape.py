"""A traced product of matrices whose K differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def layer(x: Any, w: Any) -> Any:
    return x @ w


def wrong() -> Any:
    return fi.trace_graph(layer, (64, 32), (16, 8))


def test_graph_shape(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-shape",
        "x @ w",
        """\
SpecError[graph-shape]: (64, 32) @ (16, 8) is no product of matrices
  --> test_graph_shape.py:12:12
12 |     return x @ w
   |            ^^^^^
fix: give (..., M, K) and (..., K, N)""",
    )
