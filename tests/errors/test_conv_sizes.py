"""A convolution of images with three strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), stride=(1, 2, 1))


def test_conv_sizes(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        'conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), stride=(1, 2, 1))',
        """\
FireironError[conv-sizes]: (1, 2, 1) are 3 numbers for 2 sides
  --> test_conv_sizes.py:13:12
13 |     return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), stride=(1, 2, 1))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give one number for each side""",
    )
