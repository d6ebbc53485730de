"""A call without a scalar that the kernel takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    schedule = product(64, 64, 16, alpha="alpha")
    return schedule.simulate(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32))


def test_missing_scalar(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "missing-scalar",
        "simulate(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32))",
        """\
CallError[missing-scalar]: make_32x32x8_f32 needs alpha
  --> test_missing_scalar.py:13:21
13 |     return schedule.simulate(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32))
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass alpha=...""",
    )
