"""A call with an array whose rows are not contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(np.zeros((16, 64), np.float32).T, np.zeros((16, 64), np.float32))


def test_arrays_strides(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "wrong-stride",
        "simulate(np.zeros((16, 64), np.float32).T, np.zeros((16, 64), np.float32))",
        """\
CallError[wrong-stride]: A has element strides (1, 64), the kernel takes (16, 1)
  --> test_arrays_strides.py:12:22
12 |     return product().simulate(np.zeros((16, 64), np.float32).T, np.zeros((16, 64), np.float32))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass a copy of A in this layout""",
    )
