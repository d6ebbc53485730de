"""conv2d with groups on tensor cores: a tile would hold channels of several groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    return conv.mma(
        conv.conv2d(tensor(1, 8, 8, 32, dtype="f16"), tensor(32, 3, 3, 16, dtype="f16", name="f"), groups=2)
    )


def test_conv_product(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-product",
        "mma(",
        """\
FireironError[conv-product]: conv2d folds no product of two arrays that each have a dim of their own
  --> test_conv_product.py:13:17
13 |     return conv.mma(
   |                 ^^^^
fix: groups on tensor cores are a dim of their own: conv2d_grouped; others run by conv.simt""",
    )
