"""A transposed convolution with more=-3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d_transposed


def wrong() -> Any:
    return conv2d_transposed(tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), more=-3)


def test_conv_transposed_more(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        'conv2d_transposed(tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), more=-3)',
        """\
FireironError[conv-sizes]: more=-3 takes pixels away
  --> test_conv_transposed_more.py:13:12
13 |     return conv2d_transposed(tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), more=-3)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 0 or more; pad= cuts off""",
    )
