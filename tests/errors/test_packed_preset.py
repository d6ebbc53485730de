"""A product of packed elements whose K is not contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import ampere


def wrong() -> Any:
    return ampere.gemm(matmul(128, 128, 128, "i4"))


def test_packed_preset(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "packed-access",
        'gemm(matmul(128, 128, 128, "i4"))',
        """\
FireironError[packed-access]: 2 elements of i4 share a byte, and B is not stored along K
  --> test_packed_preset.py:13:19
13 |     return ampere.gemm(matmul(128, 128, 128, "i4"))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use layout="TN", in words "row,col": K contiguous in both operands""",
    )
