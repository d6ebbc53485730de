"""A cluster of 16 blocks; every GPU takes at most 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Cluster, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(512, 512)
        .to(Cluster)
        .persistent()
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_cluster_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "cluster-blocks",
        "to(Block)",
        """\
DecompositionError[cluster-blocks]: a cluster of 16 blocks is larger than the 8 that every GPU takes
  --> test_cluster_size.py:18:10
18 |         .to(Block)
   |          ^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel
fix: use clusters of at most 8 blocks""",
    )
