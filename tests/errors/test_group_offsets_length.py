"""A call with fewer offsets than groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    schedule = simt.sgemm(matmul(64, 48, 32, groups=3))
    return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.array([10, 64], "i4"))


def test_group_offsets_length(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-shape",
        'simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.array([10, 64], "i4"))',
        """\
CallError[wrong-shape]: offsets is 2, the kernel takes 3
  --> test_group_offsets_length.py:16:21
16 |     return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.array([10, 64], "i4"))
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass an array of shape (3,)""",
    )
