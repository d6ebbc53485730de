"""specialize() with more threads than a block has."""

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
        .specialize(producers=7)
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_role_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "too-many-threads",
        "specialize(producers=7)",
        """\
DecompositionError[too-many-threads]: 896 threads that load and 256 that compute are 1152 threads a block, above 1024
  --> test_role_threads.py:20:10
20 |         .specialize(producers=7)
   |          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: specialize(producers=1): one thread starts all bulk copies""",
    )
