"""A packed convolution whose lines hold no whole number of pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d_packed


def wrong() -> Any:
    return conv2d_packed(tensor(1, 9, 25), tensor(8, 3, 9, name="f"), channels=3)


def test_conv_packed_channels(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        'conv2d_packed(tensor(1, 9, 25), tensor(8, 3, 9, name="f"), channels=3)',
        """\
FireironError[conv-sizes]: 25 elements along l are no whole number of pixels of 3 channels
  --> test_conv_packed_channels.py:13:12
13 |     return conv2d_packed(tensor(1, 9, 25), tensor(8, 3, 9, name="f"), channels=3)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give channels= of the images, which filters have too""",
    )
