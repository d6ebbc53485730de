"""Accumulation in global memory over a split at level Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .split(8)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_init_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "init-level",
        "split(8)",
        """\
DecompositionError[init-level]: C accumulates in GL over a split at level Block: no thread holds its zeros
  --> test_init_level.py:16:10
16 |         .split(8)
   |          ^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: accumulate in registers by .epilog(...) above the split, or split below .to(Thread)""",
    )
