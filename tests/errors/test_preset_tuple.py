"""A preset with a warp tile of 0 rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    return simt.sgemm(matmul(64, 64, 64), warp=(0, 32))


def test_preset_tuple(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        "sgemm(matmul(64, 64, 64), warp=(0, 32))",
        """\
SpecError[argument-kind]: warp= takes a tuple of 2 numbers, not (0, 32)
  --> test_preset_tuple.py:13:17
13 |     return simt.sgemm(matmul(64, 64, 64), warp=(0, 32))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a tuple of 2 numbers from 1 on""",
    )
