"""gemm with one array for two outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import gemm, relu


def wrong() -> Any:
    x = np.ones((16, 16))
    return gemm(x, x, epilog=lambda acc: (relu(acc), acc), out=x.copy())


def test_gemm_out_count(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-count",
        "gemm(x, x, epilog=lambda acc: (relu(acc), acc), out=x.copy())",
        """\
CallError[wrong-count]: out= holds 1 array, and the epilog gives 2 values
  --> test_gemm_out_count.py:15:12
15 |     return gemm(x, x, epilog=lambda acc: (relu(acc), acc), out=x.copy())
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give an array for each, in a tuple""",
    )
