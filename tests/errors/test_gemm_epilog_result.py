"""An epilog of gemm that returns a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import gemm


def wrong() -> Any:
    return gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc: (acc, 1.0))


def test_gemm_epilog_result(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-epilog",
        "gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc: (acc, 1.0))",
        """\
CallError[bad-epilog]: the epilog returned 1.0
  --> test_gemm_epilog_result.py:14:12
14 |     return gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc: (acc, 1.0))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: return an expression of the accumulator, or a tuple of up to 8""",
    )
