"""by_atomics() with accumulators of f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, by_atomics, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "f16").tile(32, 32).to(Block).epilog(memory=RF, dtype="f16")
        .split(16).parallel(Block, reduce=by_atomics())
    )  # fmt: skip


def test_parallel_atomics_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-reduce",
        "parallel(Block, reduce=by_atomics())",
        """\
DecompositionError[parallel-reduce]: global memory does not add accumulators of f16
  --> test_parallel_atomics_dtype.py:14:20
14 |         .split(16).parallel(Block, reduce=by_atomics())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 16
fix: accumulate in f32, f64, i32, or drop reduce=by_atomics()""",
    )
