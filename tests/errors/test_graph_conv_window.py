"""A traced convolution whose windows are larger than the padded images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import nn


def layer(x: Any, f: Any) -> Any:
    return nn.conv2d(x, f, padding=1)


def wrong() -> Any:
    return fi.trace_graph(layer, (1, 8, 4, 4), (8, 8, 7, 7))


def test_graph_conv_window(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-window",
        "conv2d(x, f, padding=1)",
        """\
SpecError[conv-window]: windows of 7 pixels are larger than a side of 4, padded by 1 and 1
  --> test_graph_conv_window.py:13:15
13 |     return nn.conv2d(x, f, padding=1)
   |               ^^^^^^^^^^^^^^^^^^^^^^^
fix: pad more, or use smaller windows""",
    )
