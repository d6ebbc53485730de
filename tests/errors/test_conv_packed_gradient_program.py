"""A convolution, given to the schedule of packed gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv, conv_packed_gradients


def spec() -> Any:
    return conv.conv2d(tensor(2, 8, 8, 16, dtype="f16"), tensor(16, 3, 3, 16, dtype="f16", name="f"))


def images() -> Any:
    return conv_packed_gradients.images_mma(spec())


def filters() -> Any:
    return conv_packed_gradients.filters_mma(spec())


def test_conv_packed_gradient_program_of_images(refused: Callable[..., Any]) -> None:
    refused(
        images,
        "conv-product",
        "images_mma(spec())",
        """\
FireironError[conv-product]: conv2d is no gradient of images of few channels
  --> test_conv_packed_gradient_program.py:17:34
17 |     return conv_packed_gradients.images_mma(spec())
   |                                  ^^^^^^^^^^^^^^^^^^
fix: give conv2d_packed_data_gradient(...)""",
    )


def test_conv_packed_gradient_program_of_filters(refused: Callable[..., Any]) -> None:
    refused(
        filters,
        "conv-product",
        "filters_mma(spec())",
        """\
FireironError[conv-product]: conv2d is no gradient of filters of few channels
  --> test_conv_packed_gradient_program.py:21:34
21 |     return conv_packed_gradients.filters_mma(spec())
   |                                  ^^^^^^^^^^^^^^^^^^^
fix: give conv2d_packed_filter_gradient(...)""",
    )
