"""A convolution that sums over channels, given to the schedule of depthwise convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    return conv.channelwise(conv.conv2d(tensor(1, 8, 8, 16), tensor(8, 3, 3, 16, name="f")))


def test_conv_kept_channels(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-program",
        'channelwise(conv.conv2d(tensor(1, 8, 8, 16), tensor(8, 3, 3, 16, name="f")))',
        """\
FireironError[conv-program]: conv.channelwise schedules folds over windows that keep the images' channels, and conv2d keeps n, p, q, k
  --> test_conv_kept_channels.py:13:17
13 |     return conv.channelwise(conv.conv2d(tensor(1, 8, 8, 16), tensor(8, 3, 3, 16, name="f")))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a depthwise convolution or a pooling of schedules.conv""",  # noqa: E501
    )
