"""A plan whose rows are no multiple of 64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron.schedules import hopper


def wrong() -> Any:
    return hopper.Plan(m=100)


def test_plan_sizes(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "plan-sizes",
        "Plan(m=100)",
        """\
FireironError[plan-sizes]: no schedule has such a plan: m=100 is no multiple of 64, the rows of one wgmma
  --> test_plan_sizes.py:12:19
12 |     return hopper.Plan(m=100)
   |                   ^^^^^^^^^^^
fix: change that number""",
    )
