"""A gather with an index that lies outside the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import Matrix, Vector
from fireiron.schedules import pointwise, rows


def wrong() -> Any:
    schedule = pointwise.pointwise(rows.embedding(Vector(3, "i32", name="ids"), Matrix(70, 32, name="table")))
    return schedule.simulate(np.array([3, 70, 0], np.int32), np.ones((70, 32), np.float32))


def test_gather_range(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "gather-range",
        "",
        """\
SimulationError[gather-range]: element 1 of ids is 70, and indices lie from 0 to 69
fix: give indices inside the array that ids indexes: where(...) around a read does not stop it""",
    )
