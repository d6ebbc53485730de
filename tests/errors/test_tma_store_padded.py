"""A bulk store from a padded buffer."""

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
        .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup, pad=8))
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


def test_tma_store_padded(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-storage",
        "epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup, pad=8))",
        """\
DecompositionError[bulk-storage]: tma.store.2d.128B writes rows of 128 bytes one after another, and acc_sh has another layout
  --> test_tma_store_padded.py:17:10
17 |         .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup, pad=8))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x64 > load src to SH > tile 64x64 > tile 64x64 to Thread
fix: let tma() choose the buffer's layout: no pad, swizzle or storage_layout on this load""",  # noqa: E501
    )
