"""A prolog below the load of its operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul, relu


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).prolog(A, relu)


def test_prolog_late(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "already-there",
        "prolog(A, relu)",
        """\
DecompositionError[already-there]: A of MatMul 32x32x8 lies in SH already
  --> test_prolog_late.py:12:75
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).prolog(A, relu)
   |                                                                           ^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8 > load A to SH
fix: write prolog before the first load of the operand""",
    )
