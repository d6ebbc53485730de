"""pipeline() of a split without loads below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .tile(4, 2)
        .to(Thread)
        .split(8)
        .pipeline(2)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_pipeline_empty(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-empty",
        "pipeline(2)",
        """\
DecompositionError[pipeline-empty]: pipeline(2) has no load below it to run ahead
  --> test_pipeline_empty.py:20:10
20 |         .pipeline(2)
   |          ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > tile 4x2 to Thread
fix: load A or B right below the split""",
    )
