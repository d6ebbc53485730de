"""by_cluster() with blocks whose threads are no whole number of warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(64, 72, 256).tile(32, 36).to(Block).epilog(memory=RF)
        .split(ways=2, multiple_of=16).parallel(Block, reduce=by_cluster())
        .split(16).load(A, SH).load(B, SH).tile(4, 8).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_parallel_cluster_warps(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-cluster",
        "parallel(Block, reduce=by_cluster())",
        """\
DecompositionError[parallel-cluster]: by_cluster() counts whole warps, and a block has 40 threads
  --> test_parallel_cluster_warps.py:14:40
14 |         .split(ways=2, multiple_of=16).parallel(Block, reduce=by_cluster())
   |                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x72x256 @ Kernel > tile 32x36 to Block
fix: tile so that a block has a multiple of 32 threads, or drop reduce=by_cluster()""",
    )
