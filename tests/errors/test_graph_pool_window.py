"""A traced pooling whose windows are larger than the padded images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import nn


def layer(x: Any) -> Any:
    return nn.avg_pool2d(x, 7, padding=1)


def wrong() -> Any:
    return fi.trace_graph(layer, (1, 8, 4, 4))


def test_graph_pool_window(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-window",
        "avg_pool2d(x, 7, padding=1)",
        """\
CallError[conv-window]: windows of 7 pixels are larger than a side of 4, padded by 1 and 1
  --> test_graph_pool_window.py:13:15
13 |     return nn.avg_pool2d(x, 7, padding=1)
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad more, or use smaller windows""",
    )
