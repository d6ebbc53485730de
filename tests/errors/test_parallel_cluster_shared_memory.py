"""by_cluster() whose sums do not fit into shared memory beside the ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, by_cluster, matmul, tma


def wrong() -> Any:
    return (
        matmul(256, 256, 1024, "f16", layout="TN", arch="sm_90a")
        .tile(128, 256).to(Block).persistent().epilog(memory=FR)
        .split(ways=2, multiple_of=64).parallel(Block, reduce=by_cluster())
        .split(64).pipeline(3).specialize(registers=(24, 240)).load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 256).to(Warpgroup).split(16).unroll().done().check()
    )  # fmt: skip


def test_parallel_cluster_shared_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "parallel(Block, reduce=by_cluster())",
        """\
CheckError[shared-memory]: a block takes 272.1 KiB of shared memory, sm_90a gives 227 KiB: acc_sh 128 KiB, b_sh 96 KiB (3 slots), a_sh 48 KiB (3 slots)
  --> test_parallel_cluster_shared_memory.py:15:40
15 |         .split(ways=2, multiple_of=64).parallel(Block, reduce=by_cluster())
   |                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x1024 @ Kernel > tile 128x256 to Block > epilog > split 2 ways to Block
fix: pipeline(2) fits; or use smaller tiles""",  # noqa: E501
    )
