"""A group that ends after the last row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    schedule = simt.sgemm(matmul(64, 48, 32, groups=3))
    return schedule.simulate(np.ones((64, 32), "f4"), np.ones((3, 32, 48), "f4"), np.array([10, 20, 65], "i4"))


def test_group_offsets_beyond(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-offsets",
        "",
        """\
SimulationError[group-offsets]: offsets[2] is 65: group 2 begins at row 20, and there are 64 rows
fix: give for each group the row before which it ends: np.cumsum(counts, dtype=np.int32)""",
    )
