"""A convolution with a dilation of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), dilation=(1, 0))


def test_conv_dilation(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        'conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), dilation=(1, 0))',
        """\
FireironError[conv-sizes]: a dilation of 0
  --> test_conv_dilation.py:13:12
13 |     return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), dilation=(1, 0))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 1 or more""",
    )
