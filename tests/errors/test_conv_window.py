"""A convolution whose filters are larger than the padded image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    return conv2d(tensor(1, 4, 4, 8), tensor(8, 7, 7, 8, name="f"), pad=1)


def test_conv_window(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-window",
        'conv2d(tensor(1, 4, 4, 8), tensor(8, 7, 7, 8, name="f"), pad=1)',
        """\
FireironError[conv-window]: windows of 7 along r are larger than h: 4, padded by 1 and 1
  --> test_conv_window.py:13:12
13 |     return conv2d(tensor(1, 4, 4, 8), tensor(8, 7, 7, 8, name="f"), pad=1)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad more, or give filters that fit""",
    )
