"""own(Warp) where warps hold no equal tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul


def wrong() -> Any:
    def by_warp(move: Any) -> Any:
        return move.own(Warp).vectors().done()

    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF, store=by_warp)
        .split(8)
        .load(A, SH)
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .permute(lambda i: (i >> 1) | ((i & 1) << 6))
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_own_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "own-level",
        "own(Warp)",
        """\
DecompositionError[own-level]: fma.f32 (done) gives the units of Warp no equal tiles of acc at regular places
  --> test_own_level.py:13:21
13 |         return move.own(Warp).vectors().done()
   |                     ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > store
fix: use own(Thread), or stage for the whole block""",
    )
