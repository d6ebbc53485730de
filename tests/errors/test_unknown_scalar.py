"""A call with a scalar that the kernel does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32), gamma=2.0)


def test_unknown_scalar(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "unknown-argument",
        "simulate(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32), gamma=2.0)",
        """\
CallError[unknown-argument]: make_32x32x8_f32 takes no gamma=2.0
  --> test_unknown_scalar.py:12:22
12 |     return product().simulate(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32), gamma=2.0)
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: its keywords are: none""",
    )
