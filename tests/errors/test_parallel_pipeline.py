"""A pipeline of chunks that units take all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp).pipeline(2)


def test_parallel_pipeline(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-pipeline",
        "pipeline(2)",
        """\
DecompositionError[parallel-pipeline]: pipeline(2) refines a loop, and Warps take the chunks of this split all at once
  --> test_parallel_pipeline.py:12:97
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp).pipeline(2)
   |                                                                                                 ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 16 to Warp
fix: split again below, and refine that loop""",
    )
