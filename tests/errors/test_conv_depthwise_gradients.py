"""A convolution, given to the schedules of its gradients; a box without pixels; arrays of no convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv, depthwise_gradients


def spec() -> Any:
    return conv.conv2d(tensor(2, 8, 8, 16, dtype="f16"), tensor(16, 3, 3, 1, dtype="f16", name="f"), groups=16)


def images() -> Any:
    return depthwise_gradients.images(spec())


def filters() -> Any:
    return depthwise_gradients.filters(spec())


def box() -> Any:
    y, x = tensor(2, 6, 6, 16, dtype="f16", name="y"), tensor(2, 8, 8, 16, dtype="f16")
    return depthwise_gradients.conv2d_filter_gradient_depthwise(y, x, 3, box=(2, 0))


def sizes() -> Any:
    y, x = tensor(2, 7, 6, 16, dtype="f16", name="y"), tensor(2, 8, 8, 16, dtype="f16")
    return depthwise_gradients.conv2d_filter_gradient_depthwise(y, x, 3)


def padded() -> Any:
    y, f = tensor(2, 1, 4, 16, dtype="f16", name="y"), tensor(16, 3, 3, 1, dtype="f16", name="f")
    return depthwise_gradients.conv2d_data_gradient_depthwise(y, f, 2, 2)


def test_conv_depthwise_gradient_of_images(refused: Callable[..., Any]) -> None:
    refused(
        images,
        "conv-product",
        "images(spec())",
        """\
FireironError[conv-product]: conv2d is no gradient of a depthwise convolution's images with strides
  --> test_conv_depthwise_gradients.py:17:32
17 |     return depthwise_gradients.images(spec())
   |                                ^^^^^^^^^^^^^^
fix: give conv2d_data_gradient_depthwise(...), or one of its kin""",
    )


def test_conv_depthwise_gradient_of_filters(refused: Callable[..., Any]) -> None:
    refused(
        filters,
        "conv-product",
        "filters(spec())",
        """\
FireironError[conv-product]: conv2d is no gradient of a depthwise convolution's filters
  --> test_conv_depthwise_gradients.py:21:32
21 |     return depthwise_gradients.filters(spec())
   |                                ^^^^^^^^^^^^^^^
fix: give conv2d_filter_gradient_depthwise(...), or one of its kin""",
    )


def test_conv_depthwise_gradient_box(refused: Callable[..., Any]) -> None:
    refused(
        box,
        "conv-sizes",
        "conv2d_filter_gradient_depthwise(y, x, 3, box=(2, 0))",
        """\
FireironError[conv-sizes]: a box of 0
  --> test_conv_depthwise_gradients.py:26:32
26 |     return depthwise_gradients.conv2d_filter_gradient_depthwise(y, x, 3, box=(2, 0))
   |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 1 or more""",
    )


def test_conv_depthwise_gradient_sizes(refused: Callable[..., Any]) -> None:
    refused(
        sizes,
        "conv-sizes",
        "conv2d_filter_gradient_depthwise(y, x, 3)",
        """\
FireironError[conv-sizes]: y has 7 pixels along side 0, and windows of 3 over 8 pixels give 6
  --> test_conv_depthwise_gradients.py:31:32
31 |     return depthwise_gradients.conv2d_filter_gradient_depthwise(y, x, 3)
   |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: describe y and x of one convolution, with its stride, padding and dilation""",
    )


def test_conv_depthwise_gradient_padding(refused: Callable[..., Any]) -> None:
    refused(
        padded,
        "conv-window",
        "conv2d_data_gradient_depthwise(y, f, 2, 2)",
        """\
FireironError[conv-window]: padding of 2 and 2 leaves -1 pixels along side 0
  --> test_conv_depthwise_gradients.py:36:32
36 |     return depthwise_gradients.conv2d_data_gradient_depthwise(y, f, 2, 2)
   |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad less: what is padded is cut off from the gradient""",
    )
