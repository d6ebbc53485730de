"""by_cluster() where the number of chunks of K is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, by_cluster, matmul, symbol


def wrong() -> Any:
    return (
        matmul(64, 64, symbol("K"), "f16").tile(64, 64).to(Block).epilog(memory=FR)
        .split(64).parallel(Block, reduce=by_cluster())
    )  # fmt: skip


def test_parallel_cluster_ways(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-ways",
        "parallel(Block, reduce=by_cluster())",
        """\
DecompositionError[parallel-ways]: the number of chunks of 64 is the number of blocks in a cluster, and it is not known: the extent of K is K
  --> test_parallel_cluster_ways.py:14:20
14 |         .split(64).parallel(Block, reduce=by_cluster())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64xK @ Kernel > tile 64x64 to Block > epilog FR > split 64
fix: write split(ways=n, multiple_of=64)""",  # noqa: E501
    )
