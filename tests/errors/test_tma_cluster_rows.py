"""A cluster whose blocks cannot divide the rows of a shared box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Cluster, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(256, 8)
        .to(Cluster)
        .tile(128, 8)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 8)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_cluster_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-box",
        "load(B, SH, tma())",
        """\
DecompositionError[bulk-box]: 2 blocks of a cluster cannot share 8 rows of B: each takes a multiple of 8
  --> test_tma_cluster_rows.py:23:10
23 |         .load(B, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 256x8 to Cluster > tile 128x8 to Block > epilog > split 64 > load B to SH > tile 64x8 > tile 64x8 to Thread
fix: use tiles whose rows divide so, or smaller clusters""",  # noqa: E501
    )
