"""A load to shared memory below a tile to QuadPair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, QuadPair, Thread, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .tile(16, 16)
        .to(Warp)
        .tile(8, 8)
        .to(QuadPair)
        .load(A, SH)
        .tile(1, 1)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .done()
    )


def test_wrong_level_of_load(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-unit",
        "load(A, SH)",
        """\
DecompositionError[shared-unit]: a shared buffer for each QuadPair cannot be synchronised
  --> test_wrong_level_of_load.py:21:10
21 |         .load(A, SH)
   |          ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > tile 16x16 to Warp > tile 8x8 to QuadPair
fix: load above to(Thread)""",
    )
