"""Calling an unfinished schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block)(np.zeros((64, 64)), np.zeros((64, 64)))


def test_unfinished_call(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished",
        "matmul(64, 64, 64).tile(32, 32).to(Block)(np.zeros((64, 64)), np.zeros((64, 64)))",
        """\
UsageError[unfinished]: a call needs a finished schedule, and this one leaves MatMul(32, 32, 64)(GL, GL, GL)(Block)
  --> test_unfinished_call.py:14:12
14 |     return matmul(64, 64, 64).tile(32, 32).to(Block)(np.zeros((64, 64)), np.zeros((64, 64)))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: close the chain by .done()""",
    )
