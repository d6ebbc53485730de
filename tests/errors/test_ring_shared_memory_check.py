"""check() of a ring and its staging that exceed the shared memory of the architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, stmatrix, through_shared, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))
        .split(64)
        .pipeline(7)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
        .check("sm_90a")
    )


def test_ring_shared_memory_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))",
        """\
CheckError[shared-memory]: a block takes 240.1 KiB of shared memory, sm_90a gives 227 KiB: a_sh 112 KiB (7 slots), b_sh 112 KiB (7 slots), acc_sh 16 KiB
  --> test_ring_shared_memory_check.py:17:10
17 |         .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x64 > load src to SH
fix: pipeline(6) fits; or use smaller tiles""",  # noqa: E501
    )
