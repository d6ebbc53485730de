"""A convolution whose chunks of channels are not a multiple of 32 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d, mma


def wrong() -> Any:
    return mma(conv2d(tensor(1, 8, 8, 32, dtype="f16"), tensor(8, 3, 3, 32, dtype="f16", name="f")), depth=7)


def test_conv_depth(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-tile",
        'mma(conv2d(tensor(1, 8, 8, 32, dtype="f16"), tensor(8, 3, 3, 32, dtype="f16", name="f")), depth=7)',
        """\
FireironError[conv-tile]: depth=7 is no multiple of 16 channels, the 32 bytes that an instruction takes
  --> test_conv_depth.py:13:12
13 |     return mma(conv2d(tensor(1, 8, 8, 32, dtype="f16"), tensor(8, 3, 3, 32, dtype="f16", name="f")), depth=7)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a multiple of 16, or leave depth out""",
    )
