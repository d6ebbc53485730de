"""A pooling with a dilation of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import max_pool2d


def wrong() -> Any:
    return max_pool2d(tensor(1, 4, 4, 8), 2, dilation=0)


def test_pool_dilation(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        "max_pool2d(tensor(1, 4, 4, 8), 2, dilation=0)",
        """\
FireironError[conv-sizes]: a dilation of 0
  --> test_pool_dilation.py:13:12
13 |     return max_pool2d(tensor(1, 4, 4, 8), 2, dilation=0)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 1 or more""",
    )
