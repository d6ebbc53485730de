"""A convolution whose groups do not divide the filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    return conv2d(tensor(1, 8, 8, 8), tensor(9, 3, 3, 4, name="f"), groups=2)


def test_conv_groups(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-groups",
        'conv2d(tensor(1, 8, 8, 8), tensor(9, 3, 3, 4, name="f"), groups=2)',
        """\
FireironError[conv-groups]: 2 groups do not fit 8 channels and 9 filters of 4 channels
  --> test_conv_groups.py:13:12
13 |     return conv2d(tensor(1, 8, 8, 8), tensor(9, 3, 3, 4, name="f"), groups=2)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give filters of channels / groups, and a number of groups that divides channels and filters""",
    )
