"""An epilog of gemm that calls relu with two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import gemm, relu


def wrong() -> Any:
    return gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc: relu(acc, 0))


def test_gemm_epilog_fails(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-epilog",
        "gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc: relu(acc, 0))",
        """\
CallError[bad-epilog]: the epilog fails: relu() takes 1 positional argument but 2 were given
  --> test_gemm_epilog_fails.py:14:12
14 |     return gemm(np.ones((16, 16)), np.ones((16, 16)), epilog=lambda acc: relu(acc, 0))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: correct the call inside the epilog""",
    )
