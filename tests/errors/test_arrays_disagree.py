"""A call with arrays that give one symbol two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import symbol


def wrong(product: Callable[..., Any]) -> Any:
    schedule = product(64, 64, symbol("K"))
    return schedule.simulate(np.zeros((64, 16), np.float32), np.zeros((18, 64), np.float32))


def test_arrays_disagree(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "size-mismatch",
        "simulate(np.zeros((64, 16), np.float32), np.zeros((18, 64), np.float32))",
        """\
CallError[size-mismatch]: K is 16 in dimension 1 of A, but 18 in dimension 0 of B
  --> test_arrays_disagree.py:15:21
15 |     return schedule.simulate(np.zeros((64, 16), np.float32), np.zeros((18, 64), np.float32))
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass arrays that agree on K""",
    )
