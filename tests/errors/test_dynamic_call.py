"""gemm with dynamic= and an epilog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import gemm, relu

A, B = np.ones((5, 16), np.float16), np.ones((16, 8), np.float16)


def wrong() -> Any:
    return gemm(A, B, epilog=relu, dynamic="M")


def test_dynamic_call(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dynamic-call",
        'gemm(A, B, epilog=relu, dynamic="M")',
        """\
CallError[dynamic-call]: dynamic= supports two dense matrices, without epilog, schedule, operands or dtype
  --> test_dynamic_call.py:16:12
16 |     return gemm(A, B, epilog=relu, dynamic="M")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: write the schedule: best(matmul(symbol("M"), N, K, "f16").then(...))""",
    )
