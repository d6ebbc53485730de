"""A pooling whose window is larger than the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import max_pool2d


def wrong() -> Any:
    return max_pool2d(tensor(1, 4, 4, 8), 5)


def test_pool_window(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-window",
        "max_pool2d(tensor(1, 4, 4, 8), 5)",
        """\
FireironError[conv-window]: windows of 5 are larger than h: 4, padded by 0 and 0
  --> test_pool_window.py:13:12
13 |     return max_pool2d(tensor(1, 4, 4, 8), 5)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad more, or use smaller windows""",
    )
