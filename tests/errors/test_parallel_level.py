"""Lanes of a warp take chunks of K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Thread, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Thread)


def test_parallel_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-level",
        "parallel(Thread)",
        """\
DecompositionError[parallel-level]: units of Thread cannot take chunks of MatMul 32x32x64, which is at level Block
  --> test_parallel_level.py:12:82
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Thread)
   |                                                                                  ^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 16
fix: give chunks to Block, Warpgroup, Warp or Group(Warp, n) inside the present level, below tile(...).to(Block)""",
    )
