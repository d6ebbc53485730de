"""A pipeline of registers without unroll()."""

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
        .split(8)
        .load(A, SH)
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .pipeline(2)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_register_pipeline(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "register-loop",
        "pipeline(2)",
        """\
DecompositionError[register-loop]: a pipeline of registers has no run-time slot
  --> test_register_pipeline.py:23:10
23 |         .pipeline(2)
   |          ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > load B to SH > tile 4x2 to Thread
fix: refine the split by .unroll() too""",  # noqa: E501
    )
