"""A graph traced with a text instead of the description of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def double(x: Any) -> Any:
    return x + x


def wrong() -> Any:
    return fi.trace_graph(double, "f16")


def test_graph_arrays(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "graph-arrays",
        'trace_graph(double, "f16")',
        """\
SpecError[graph-arrays]: 'f16' describes no array of known extents
  --> test_graph_arrays.py:16:15
16 |     return fi.trace_graph(double, "f16")
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a shape, tensor(2, 3, dtype="f16"), or an array""",
    )
