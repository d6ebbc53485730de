"""A load of an operand to the memory in which it lies already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).load(A, SH)


def test_already_there(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "already-there",
        "load(A, SH)",
        """\
DecompositionError[already-there]: A of MatMul 32x32x8 lies in SH already
  --> test_already_there.py:12:75
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).load(A, SH)
   |                                                                           ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8 > load A to SH
fix: drop this load, or load it to RF""",
    )
