"""by_cluster() with 16 blocks; every GPU takes at most 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 1024, "f16").tile(64, 64).to(Block).epilog(memory=FR)
        .split(64).parallel(Block, reduce=by_cluster())
    )  # fmt: skip


def test_parallel_cluster_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-cluster",
        "parallel(Block, reduce=by_cluster())",
        """\
DecompositionError[parallel-cluster]: 16 chunks for a block each are a cluster of 16, larger than the 8 that every GPU takes
  --> test_parallel_cluster_size.py:14:20
14 |         .split(64).parallel(Block, reduce=by_cluster())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x1024 @ Kernel > tile 64x64 to Block > epilog FR > split 64
fix: split(ways=8, ...), or drop reduce=by_cluster()""",  # noqa: E501
    )
