"""by_cluster() below a tile to Cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, Cluster, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(256, 64, 256, "f16").tile(128, 64).to(Cluster).tile(64, 64).to(Block).epilog(memory=FR)
        .split(64).parallel(Block, reduce=by_cluster())
    )  # fmt: skip


def test_parallel_cluster_tile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-cluster",
        "parallel(Block, reduce=by_cluster())",
        """\
DecompositionError[parallel-cluster]: the blocks that share a tile must form a cluster, but a tile above forms clusters of other blocks
  --> test_parallel_cluster_tile.py:14:20
14 |         .split(64).parallel(Block, reduce=by_cluster())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  --> test_parallel_cluster_tile.py:13:51
13 |         matmul(256, 64, 256, "f16").tile(128, 64).to(Cluster).tile(64, 64).to(Block).epilog(memory=FR)
   |                                                   ^^^^^^^^^^^
at:  MatMul 256x64x256 @ Kernel > tile 128x64 to Cluster > tile 64x64 to Block > epilog FR > split 64
fix: tile to Block alone, or drop reduce=by_cluster()""",  # noqa: E501
    )
