"""A simulation that should stop at a trip that the loop does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import At


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(break_at=At("fma", trips={"k": 9}))


def test_break_at_late(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "no-such-moment",
        'simulate(break_at=At("fma", trips={"k": 9}))',
        """\
UsageError[no-such-moment]: block 0 never reaches 'fma', k = 9: it takes 4 steps
  --> test_break_at_late.py:12:22
12 |     return product().simulate(break_at=At("fma", trips={"k": 9}))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: choose a smaller number for the trip or the step""",
    )
