"""An array of unpacked elements, where the kernel takes packed elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import matmul
from fireiron.schedules import turing


def wrong() -> Any:
    a, b = np.zeros((64, 128), np.int8), np.zeros((64, 64), np.uint8)
    return turing.gemm(matmul(64, 64, 128, "i4", layout="TN"))(a, b)


def test_packed_array(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-shape",
        'turing.gemm(matmul(64, 64, 128, "i4", layout="TN"))(a, b)',
        """\
CallError[wrong-shape]: A is 64x128, the kernel takes 64x64
  --> test_packed_array.py:16:12
16 |     return turing.gemm(matmul(64, 64, 128, "i4", layout="TN"))(a, b)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass an array of shape (64, 64), whose bytes hold 2 elements of i4 each""",
    )
