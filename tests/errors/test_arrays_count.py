"""A call with too few arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(np.zeros((64, 16), np.float32))


def test_arrays_count(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "wrong-count",
        "simulate(np.zeros((64, 16), np.float32))",
        """\
CallError[wrong-count]: make_32x32x8_f32 takes 2 arrays (A, B), 1 were given
  --> test_arrays_count.py:12:22
12 |     return product().simulate(np.zeros((64, 16), np.float32))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: call kernel(A, B, *, out=None, stream=None)""",
    )
