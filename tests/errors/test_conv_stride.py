"""A convolution with a stride of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), stride=0)


def test_conv_stride(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        'conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), stride=0)',
        """\
FireironError[conv-sizes]: a stride of 0
  --> test_conv_stride.py:13:12
13 |     return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), stride=0)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 1 or more""",
    )
