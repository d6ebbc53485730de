"""A packed gradient whose padding leaves no pixels, and one whose lines hold no whole number of pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv_packed_gradients as gradients


def padded() -> Any:
    y, f = tensor(2, 2, 2, 16, dtype="f16", name="y"), tensor(16, 3, 9, dtype="f16", name="f")
    return gradients.conv2d_packed_data_gradient(y, f, 1, 2)


def lines() -> Any:
    y, x = tensor(2, 6, 6, 16, dtype="f16", name="y"), tensor(2, 8, 25, dtype="f16")
    return gradients.conv2d_packed_filter_gradient(y, x, 3)


def test_conv_packed_gradient_padding(refused: Callable[..., Any]) -> None:
    refused(
        padded,
        "conv-window",
        "conv2d_packed_data_gradient(y, f, 1, 2)",
        """\
FireironError[conv-window]: padding of 2 and 2 leaves 0 pixels along h
  --> test_conv_packed_gradient_sizes.py:14:22
14 |     return gradients.conv2d_packed_data_gradient(y, f, 1, 2)
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad less: what is padded is cut off from the gradient""",
    )


def test_conv_packed_gradient_lines(refused: Callable[..., Any]) -> None:
    refused(
        lines,
        "conv-sizes",
        "conv2d_packed_filter_gradient(y, x, 3)",
        """\
FireironError[conv-sizes]: 25 elements along l are no whole number of pixels of 3 channels
  --> test_conv_packed_gradient_sizes.py:19:22
19 |     return gradients.conv2d_packed_filter_gradient(y, x, 3)
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give channels= of the images, which filters have too""",
    )
