"""A grouped product called without offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    schedule = simt.sgemm(matmul(64, 48, 32, groups=3))
    return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"))


def test_group_missing_offsets(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-count",
        'simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"))',
        """\
CallError[wrong-count]: sgemm_128x128x8_f32 takes 3 arrays (A, B, offsets), 2 were given
  --> test_group_missing_offsets.py:16:21
16 |     return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"))
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: call kernel(A, B, offsets, *, out=None, stream=None)""",
    )
