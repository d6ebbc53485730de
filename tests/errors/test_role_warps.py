"""specialize() whose other role is no whole number of warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul, staged


def wrong() -> Any:
    return (
        matmul(24, 10, 4, layout="TN", arch="sm_90")
        .tile(4, 2).to(Block)
        .epilog(memory=RF)
        .split(4)
        .specialize()
        .load(A, SH, staged())
        .load(B, SH, staged())
        .tile(2, 1).to(Thread)
        .split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def test_role_warps(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-warps",
        "specialize()",
        """\
DecompositionError[role-warps]: roles are whole warps, and specialize() leaves 4 threads to compute
  --> test_role_warps.py:17:10
17 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 24x10x... @ Kernel > tile 4x2 to Block > epilog
fix: choose tiles for a multiple of 32 threads, or drop specialize()""",
    )
