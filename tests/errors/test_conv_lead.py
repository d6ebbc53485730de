"""A packed convolution with a lead of -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    x, f = tensor(2, 8, 24, dtype="f16"), tensor(16, 3, 9, dtype="f16", name="f")
    return conv.conv2d_packed(x, f, stride=2, pad=1, lead=-1)


def test_conv_lead(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        "conv2d_packed(x, f, stride=2, pad=1, lead=-1)",
        """\
FireironError[conv-sizes]: a lead of -1
  --> test_conv_lead.py:14:17
14 |     return conv.conv2d_packed(x, f, stride=2, pad=1, lead=-1)
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 0 or more""",
    )
