"""parallel(Warp) of a split with pipeline()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp).pipeline(2)


def wrong_before() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).unroll(2).parallel(Warp)


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


def test_chunks_of_a_loop_before_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong_before,
        "parallel-pipeline",
        "parallel(Warp)",
        """\
DecompositionError[parallel-pipeline]: unroll(2) refines a loop, and Warps take the chunks of this split all at once
  --> test_parallel_pipeline.py:16:92
16 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).unroll(2).parallel(Warp)
   |                                                                                            ^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 16
fix: split again below, and refine that loop""",
    )
