"""Images that lie channels first, by bulk copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    x = tensor(1, 8, 8, 32, dtype="f16", strides=(2048, 8, 1, 64))
    return conv.wgmma(conv.conv2d(x, tensor(64, 3, 3, 32, dtype="f16", name="f"), channels_first=True))


def test_conv_across(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-across",
        'wgmma(conv.conv2d(x, tensor(64, 3, 3, 32, dtype="f16", name="f"), channels_first=True))',
        """\
FireironError[conv-across]: x has a stride of 64 along its last dim, and bulk copies take lines along it
  --> test_conv_across.py:14:17
14 |     return conv.wgmma(conv.conv2d(x, tensor(64, 3, 3, 32, dtype="f16", name="f"), channels_first=True))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use conv.mma, which transposes on the way, or arrays that lie channels last""",
    )
