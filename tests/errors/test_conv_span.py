"""A convolution whose chunks have rows of 48 bytes, for which there is no swizzle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    x, f = tensor(2, 8, 8, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
    return conv.wgmma(conv.conv2d(x, f), span=48)


def test_conv_span(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-tile",
        "wgmma(conv.conv2d(x, f), span=48)",
        """\
FireironError[conv-tile]: span=48 is no number of bytes that bulk copies spread over banks
  --> test_conv_span.py:14:17
14 |     return conv.wgmma(conv.conv2d(x, f), span=48)
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 32, 64, 128, or leave span out""",
    )
