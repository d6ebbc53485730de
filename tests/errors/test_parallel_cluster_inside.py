"""by_cluster() for warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, Warp, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "f16").tile(64, 64).to(Block).epilog(memory=FR)
        .split(16).parallel(Warp, reduce=by_cluster())
    )  # fmt: skip


def test_parallel_cluster_inside(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-reduce",
        "parallel(Warp, reduce=by_cluster())",
        """\
DecompositionError[parallel-reduce]: Warps add their sums in shared memory, in which no cluster has a part
  --> test_parallel_cluster_inside.py:14:20
14 |         .split(16).parallel(Warp, reduce=by_cluster())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog FR > split 16
fix: drop reduce=by_cluster(), or split over Block""",
    )
