"""A preset with ways=0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import ampere


def wrong() -> Any:
    return ampere.gemm(matmul(256, 256, 64, "f16"), ways=0)


def test_preset_argument(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        'gemm(matmul(256, 256, 64, "f16"), ways=0)',
        """\
SpecError[argument-kind]: ways= takes a number, not 0
  --> test_preset_argument.py:13:19
13 |     return ampere.gemm(matmul(256, 256, 64, "f16"), ways=0)
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a whole number from 1 on""",
    )
