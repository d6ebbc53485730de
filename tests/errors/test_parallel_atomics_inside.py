"""by_atomics() for warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, by_atomics, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF)
        .split(16).parallel(Warp, reduce=by_atomics())
    )  # fmt: skip


def test_parallel_atomics_inside(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-reduce",
        "parallel(Warp, reduce=by_atomics())",
        """\
DecompositionError[parallel-reduce]: Warps add their sums in shared memory, where no atomics are needed
  --> test_parallel_atomics_inside.py:14:20
14 |         .split(16).parallel(Warp, reduce=by_atomics())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 16
fix: drop reduce=by_atomics(), or split over Block""",
    )
