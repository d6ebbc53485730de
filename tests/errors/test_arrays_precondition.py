"""A call with a size that is not a multiple of the number that the kernel needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import symbol


def wrong(product: Callable[..., Any]) -> Any:
    schedule = product(symbol("M", multiple_of=8), 64, 16)
    return schedule.simulate(np.zeros((63, 16), np.float32), np.zeros((16, 64), np.float32))


def test_arrays_precondition(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "precondition",
        "simulate(np.zeros((63, 16), np.float32), np.zeros((16, 64), np.float32))",
        """\
CallError[precondition]: M is 63 in dimension 0 of A, and must be a multiple of 8
  --> test_arrays_precondition.py:15:21
15 |     return schedule.simulate(np.zeros((63, 16), np.float32), np.zeros((16, 64), np.float32))
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pad it to 64, or schedule it without multiple_of=8""",
    )
