"""A load to shared memory below a tile to Thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .tile(4, 2)
        .to(Thread)
        .split(8)
        .load(A, SH)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_shared_by_thread(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-unit",
        "load(A, SH)",
        """\
DecompositionError[shared-unit]: a shared buffer for each Thread cannot be synchronised
  --> test_shared_by_thread.py:20:10
20 |         .load(A, SH)
   |          ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > tile 4x2 to Thread > split 8
fix: load above to(Thread)""",
    )
