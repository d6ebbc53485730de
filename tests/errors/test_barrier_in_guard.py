"""A shared load where some warps have no tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(48, 32)
        .to(Block)
        .epilog(memory=RF)
        .tile(16, 32)
        .to(Warp, units=2)
        .unroll()
        .split(8)
        .load(A, SH)
        .tile(4, 4)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_barrier_in_guard(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "barrier-in-guard",
        "load(A, SH)",
        """\
DecompositionError[barrier-in-guard]: a barrier is needed (a_sh is written before it is read) where only some threads arrive
  --> test_barrier_in_guard.py:21:10
21 |         .load(A, SH)
   |          ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 48x32 to Block > epilog > tile 16x32 to Warp > split 8 > load A to SH > tile 4x4 to Thread
fix: map a number of tiles that keeps every unit busy, or load above the tile that leaves units idle""",  # noqa: E501
    )
