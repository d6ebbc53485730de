"""A transposed convolution whose padding leaves no pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.conv import conv2d_transposed


def wrong() -> Any:
    return conv2d_transposed(tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), pad=5)


def test_conv_transposed_padding(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-window",
        'conv2d_transposed(tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), pad=5)',
        """\
FireironError[conv-window]: padding of 5 and 5 leaves -4 pixels along h
  --> test_conv_transposed_padding.py:13:12
13 |     return conv2d_transposed(tensor(1, 4, 4, 8, name="y"), tensor(8, 3, 3, 8, name="f"), pad=5)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad less: what a transposed convolution pads is cut off from its result""",
    )
