"""check("sm_80") of a schedule with clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Cluster, Thread, matmul


def wrong() -> Any:
    return (
        matmul(256, 256, 64)
        .tile(256, 128)
        .to(Cluster)
        .tile(128, 64)
        .to(Block)
        .epilog(memory=RF)
        .tile(8, 8)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
        .compile("sm_80")
    )


def test_cluster_arch_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "to(Cluster)",
        """\
CheckError[arch]: clusters of blocks need sm_90, not sm_80
  --> test_cluster_arch_check.py:15:10
15 |         .to(Cluster)
   |          ^^^^^^^^^^^
at:  MatMul 256x256x64 @ Kernel > tile 256x128 to Cluster
fix: drop the tile to Cluster: tile to Block first""",
    )
