"""specialize() with 100 registers, which is no multiple of 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 100))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_role_budget(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-registers",
        "specialize(registers=(24, 100))",
        """\
DecompositionError[role-registers]: specialize(producers=1, registers=(24, 100)): a budget of 100 registers
  --> test_role_budget.py:20:10
20 |         .specialize(registers=(24, 100))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64
fix: give at least one producer, and budgets that are multiples of 8 from 24 to 256""",
    )
