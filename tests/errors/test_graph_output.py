"""A traced function that returns no array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def shape(x: Any) -> Any:
    return x.shape


def wrong() -> Any:
    return fi.trace_graph(shape, (64, 32))


def test_graph_output(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-output",
        "trace_graph(shape, (64, 32))",
        """\
SpecError[graph-output]: shape returned (64, 32)
  --> test_graph_output.py:16:15
16 |     return fi.trace_graph(shape, (64, 32))
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: return an array that is computed from its arguments, or a tuple of them""",
    )
