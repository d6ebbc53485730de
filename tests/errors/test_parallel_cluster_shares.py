"""by_cluster() with more shares than blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 256, "f16").tile(64, 64).to(Block).epilog(memory=FR)
        .split(ways=2, multiple_of=64).parallel(Block, reduce=by_cluster(shares=4))
    )  # fmt: skip


def test_parallel_cluster_shares(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-cluster",
        "parallel(Block, reduce=by_cluster(shares=4))",
        """\
DecompositionError[parallel-cluster]: 4 of 2 blocks cannot finish a share of the tile each
  --> test_parallel_cluster_shares.py:14:40
14 |         .split(ways=2, multiple_of=64).parallel(Block, reduce=by_cluster(shares=4))
   |                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x256 @ Kernel > tile 64x64 to Block > epilog FR > split 2 ways
fix: use 1 to 2, or leave shares out""",
    )
