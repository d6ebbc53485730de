"""by_cluster() on an architecture without clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, by_cluster, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 256, "f16", arch="sm_80").tile(64, 64).to(Block).epilog(memory=FR)
        .split(64).parallel(Block, reduce=by_cluster())
    )  # fmt: skip


def test_parallel_cluster_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "parallel(Block, reduce=by_cluster())",
        """\
DecompositionError[arch]: clusters of blocks need sm_90, not sm_80
  --> test_parallel_cluster_arch.py:14:20
14 |         .split(64).parallel(Block, reduce=by_cluster())
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x256 @ Kernel > tile 64x64 to Block > epilog FR > split 64 to Block
fix: drop reduce=by_cluster(): the sums then meet in a workspace""",
    )
