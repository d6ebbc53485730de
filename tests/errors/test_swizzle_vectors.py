"""A vector load from a buffer whose swizzle separates the elements of a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Swizzle, Thread, matmul


def wrong() -> Any:
    def quads(move: Any) -> Any:
        return move.tile(1, 4).to(Thread).done()

    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH, quads)
        .swizzle(Swizzle(2, 1, 3))
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_swizzle_vectors(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "irregular-steps",
        "done()",
        """\
DecompositionError[irregular-steps]: 4 elements of a_sh are not together under Swizzle(2, 1, 3)
  --> test_swizzle_vectors.py:13:43
13 |         return move.tile(1, 4).to(Thread).done()
   |                                           ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > tile 1x4 to Thread
fix: access at most 2 aligned elements at once""",
    )
