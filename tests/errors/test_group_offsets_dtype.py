"""Offsets of groups in 64 bits; they must be i32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    schedule = simt.sgemm(matmul(64, 48, 32, groups=3))
    return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.cumsum([10, 20, 34]))


def test_group_offsets_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-dtype",
        'simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.cumsum([10, 20, 34]))',
        """\
CallError[wrong-dtype]: offsets is int64, the kernel takes i32
  --> test_group_offsets_dtype.py:16:21
16 |     return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.cumsum([10, 20, 34]))
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass offsets.astype('int32')""",
    )
