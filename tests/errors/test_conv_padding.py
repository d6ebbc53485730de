"""A convolution with a padding of -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), pad=((-1, 0), (0, 0)))


def test_conv_padding(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-sizes",
        'conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), pad=((-1, 0), (0, 0)))',
        """\
FireironError[conv-sizes]: a padding of -1
  --> test_conv_padding.py:13:12
13 |     return conv2d(tensor(1, 8, 8, 8), tensor(8, 3, 3, 8, name="f"), pad=((-1, 0), (0, 0)))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 0 or more""",
    )
