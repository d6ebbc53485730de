"""check("sm_80") of a schedule whose role loads by bulk copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, ldmatrix, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16")
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize()
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 32)
        .to(Warp)
        .split(16)
        .unroll()
        .load(A, FR, ldmatrix())
        .load(B, FR, ldmatrix())
        .tile(16, 8)
        .unroll()
        .done()
        .check("sm_80")
    )


def test_role_arch_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "specialize()",
        """\
CheckError[arch]: roles that load by bulk copies need sm_90, not sm_80
  --> test_role_arch_check.py:19:10
19 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block
fix: drop specialize(), and load by cp_async() in a pipeline""",
    )
