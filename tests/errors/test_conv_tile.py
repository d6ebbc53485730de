"""A convolution whose tile of 3 pixels cannot be divided among two units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    images, filters = tensor(1, 8, 8, 16, dtype="f16"), tensor(16, 3, 3, 16, dtype="f16", name="f")
    return conv.wgmma(conv.conv2d(images, filters), pixels=3)


def test_conv_tile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-tile",
        "wgmma(conv.conv2d(images, filters), pixels=3)",
        """\
FireironError[conv-tile]: no box of 3 pixels has 2 equal parts that lie together, and sides of at most 64
  --> test_conv_tile.py:14:17
14 |     return conv.wgmma(conv.conv2d(images, filters), pixels=3)
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give pixels= a power of two that each warp or warpgroup can cut into rows of its instruction""",
    )
