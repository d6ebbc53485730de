"""A traced convolution whose groups do not divide the channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import nn


def layer(x: Any, f: Any) -> Any:
    return nn.conv2d(x, f, groups=3)


def wrong() -> Any:
    return fi.trace_graph(layer, (1, 8, 6, 6), (9, 2, 3, 3))


def test_graph_conv_groups(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-groups",
        "conv2d(x, f, groups=3)",
        """\
CallError[conv-groups]: 3 groups do not fit 8 channels and 9 filters of 2 channels
  --> test_graph_conv_groups.py:13:15
13 |     return nn.conv2d(x, f, groups=3)
   |               ^^^^^^^^^^^^^^^^^^^^^^
fix: give filters of channels / groups, and a number of groups that divides channels and filters""",
    )
