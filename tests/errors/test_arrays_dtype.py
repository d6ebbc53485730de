"""A call with an array of another element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    return product()(np.zeros((64, 16)), np.zeros((16, 64), np.float32))


def test_arrays_dtype(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "wrong-dtype",
        "product()(np.zeros((64, 16)), np.zeros((16, 64), np.float32))",
        """\
CallError[wrong-dtype]: A is float64, the kernel takes f32
  --> test_arrays_dtype.py:12:12
12 |     return product()(np.zeros((64, 16)), np.zeros((16, 64), np.float32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass A.astype('float32')""",
    )
