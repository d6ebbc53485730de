"""by_cluster() with more blocks than chunks of K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 128, "f16").tile(64, 64).to(Block).epilog(memory=FR)
        .split(ways=4, multiple_of=64).parallel(Block, reduce=by_cluster())
    )  # fmt: skip


def test_parallel_cluster_empty(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-ways",
        "parallel(Block, reduce=by_cluster())",
        """\
DecompositionError[parallel-ways]: 4 ways of 64 leave 2 blocks of the cluster without a part of K = 128
  --> test_parallel_cluster_empty.py:14:40
14 |         .split(ways=4, multiple_of=64).parallel(Block, reduce=by_cluster())
   |                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x128 @ Kernel > tile 64x64 to Block > epilog FR > split 4 ways
fix: split K 2 ways, or into smaller chunks""",
    )
