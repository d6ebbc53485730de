"""Clusters on sm_80; they need sm_90."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Cluster, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, arch="sm_80").tile(256, 128).to(Cluster)


def test_cluster_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "to(Cluster)",
        """\
DecompositionError[arch]: clusters of blocks need sm_90, not sm_80
  --> test_cluster_arch.py:12:63
12 |     return matmul(512, 512, 512, arch="sm_80").tile(256, 128).to(Cluster)
   |                                                               ^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 256x128 to Cluster
fix: drop the tile to Cluster: tile to Block first""",
    )
