"""A call with an array of another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    return product()(np.zeros((64, 15), np.float32), np.zeros((16, 64), np.float32))


def test_arrays_shape(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "wrong-shape",
        "product()(np.zeros((64, 15), np.float32), np.zeros((16, 64), np.float32))",
        """\
CallError[wrong-shape]: A is 64x15, the kernel takes 64x16
  --> test_arrays_shape.py:12:12
12 |     return product()(np.zeros((64, 15), np.float32), np.zeros((16, 64), np.float32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass an array of shape (64, 16)""",
    )
