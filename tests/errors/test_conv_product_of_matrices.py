"""A product of matrices, given to the schedule of convolutions on tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import einsum, program, tensor
from fireiron.schedules import conv


def wrong() -> Any:
    product = program(x="m k", w="k n")(lambda x, w: einsum("mk,kn->mn", x, w))
    return conv.mma(product(tensor(64, 32, dtype="f16"), tensor(32, 64, dtype="f16")))


def test_conv_product_of_matrices(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-product",
        'mma(product(tensor(64, 32, dtype="f16"), tensor(32, 64, dtype="f16")))',
        """\
FireironError[conv-product]: program has no product of images, of two sides or more, and filters
  --> test_conv_product_of_matrices.py:14:17
14 |     return conv.mma(product(tensor(64, 32, dtype="f16"), tensor(32, 64, dtype="f16")))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a convolution of schedules.conv; products of matrices are matmul's""",
    )
