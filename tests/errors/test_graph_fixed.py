"""A fixed array that a graph does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def double(x: Any) -> Any:
    return x + x


def wrong() -> Any:
    return fi.trace_graph(double, (8,), fixed=("w",))


def test_graph_fixed(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-fixed",
        'trace_graph(double, (8,), fixed=("w",))',
        """\
SpecError[graph-fixed]: double has no array 'w'
  --> test_graph_fixed.py:16:15
16 |     return fi.trace_graph(double, (8,), fixed=("w",))
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: arrays: x""",
    )
