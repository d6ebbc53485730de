"""A plan whose rows do not divide among its warpgroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import hopper


def wrong() -> Any:
    return hopper.cooperative(matmul(256, 256, 64, "f16"), hopper.Plan(m=64))


def test_plan_fits(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "plan-sizes",
        'cooperative(matmul(256, 256, 64, "f16"), hopper.Plan(m=64))',
        """\
FireironError[plan-sizes]: no schedule has such a plan: m=64 is no multiple of 128, 64 rows for each warpgroup
  --> test_plan_fits.py:13:19
13 |     return hopper.cooperative(matmul(256, 256, 64, "f16"), hopper.Plan(m=64))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: change that number""",
    )
