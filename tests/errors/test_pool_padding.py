"""A pooling whose padding leaves windows without any pixel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import max_pool2d


def wrong() -> Any:
    return max_pool2d(tensor(1, 4, 4, 8), 2, 1, 2)


def test_pool_padding(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-window",
        "max_pool2d(tensor(1, 4, 4, 8), 2, 1, 2)",
        """\
FireironError[conv-window]: padding of 2 and 2 around h leaves windows of 2 wholly outside
  --> test_pool_padding.py:13:12
13 |     return max_pool2d(tensor(1, 4, 4, 8), 2, 1, 2)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad by less than 2""",
    )
