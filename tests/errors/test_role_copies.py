"""specialize() with loads by cp.async, whose bytes no mbarrier counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, cp_async, ldmatrix, matmul


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16")
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize()
        .load(A, SH, cp_async())
        .load(B, SH, cp_async())
        .tile(64, 64)
        .to(Warp)
        .split(16)
        .unroll()
        .load(A, FR, ldmatrix())
        .load(B, FR, ldmatrix())
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_role_copies(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-copies",
        "load(A, SH, cp_async())",
        """\
DecompositionError[role-copies]: cp.async.16B cannot fill a ring that another role empties: no barrier counts its bytes
  --> test_role_copies.py:20:10
20 |         .load(A, SH, cp_async())
   |          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: load by tma(), or by staged(), which loads a chunk to registers while it waits for a slot; or drop specialize()""",
    )
