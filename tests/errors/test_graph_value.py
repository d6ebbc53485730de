"""A traced function that uses an array's elements in Python's if."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def positive(x: Any) -> Any:
    return x if x.max() > 0 else -x


def wrong() -> Any:
    return fi.trace_graph(positive, (64, 32))


def test_graph_value(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-value",
        "x.max() > 0",
        """\
SpecError[graph-value]: the truth of a traced array, which has no elements yet
  --> test_graph_value.py:12:17
12 |     return x if x.max() > 0 else -x
   |                 ^^^^^^^^^^^
fix: choose between arrays by np.where; loops and conditions may depend on shapes""",
    )
