"""A pooling with a negative stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import max_pool2d


def wrong() -> Any:
    return max_pool2d(tensor(1, 4, 4, 8), 3, (1, -2))


def test_pool_stride(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        "max_pool2d(tensor(1, 4, 4, 8), 3, (1, -2))",
        """\
FireironError[conv-sizes]: a stride of -2
  --> test_pool_stride.py:13:12
13 |     return max_pool2d(tensor(1, 4, 4, 8), 3, (1, -2))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 1 or more""",
    )
