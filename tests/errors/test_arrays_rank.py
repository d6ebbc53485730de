"""A call with an array of another rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(np.zeros(64, np.float32), np.zeros((16, 64), np.float32))


def test_arrays_rank(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "wrong-shape",
        "simulate(np.zeros(64, np.float32), np.zeros((16, 64), np.float32))",
        """\
CallError[wrong-shape]: A has 1 dimensions (64,), the kernel takes 64x16
  --> test_arrays_rank.py:12:22
12 |     return product().simulate(np.zeros(64, np.float32), np.zeros((16, 64), np.float32))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: reshape A to 64x16""",
    )
