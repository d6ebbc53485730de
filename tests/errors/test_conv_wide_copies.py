"""A convolution whose tile is too large for the registers that copying threads leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    x = tensor(1, 8, 8, 32, dtype="f16", strides=(2048, 8, 1, 64))
    spec = conv.conv2d(x, tensor(256, 3, 3, 32, dtype="f16", name="f"), channels_first=True)
    return conv.wgmma(spec, pixels=128, channels=256)


def test_conv_wide_copies(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-tile",
        "wgmma(spec, pixels=128, channels=256)",
        """\
FireironError[conv-tile]: tiles of 128x256 give a thread 128 sums, and beside threads that copy it has registers for 64
  --> test_conv_wide_copies.py:15:17
15 |     return conv.wgmma(spec, pixels=128, channels=256)
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use smaller tiles, or arrays that bulk copies take: channels last, lines at multiples of 16 bytes""",
    )
