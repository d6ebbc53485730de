"""tma() in a pipeline without a loading role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_without_role(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-role",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-role]: an mbarrier counts the bytes of tma.load.2d.128B as they land, and no role of this block waits for one
  --> test_tma_without_role.py:20:10
20 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > tile 128x64 > tile 128x64 to Thread
fix: give the loads a role of their own: split(k).pipeline(n).specialize() right above them""",  # noqa: E501
    )
