"""A tile of a Move that does not start at multiples of the vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul


def wrong() -> Any:
    def quads(move: Any) -> Any:
        return move.tile(1, 4).to(Thread).done()

    return (
        matmul(64, 64, 18)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH, quads)
        .load(B, SH)
        .tile(16, 16)
        .to(Warp)
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


def test_vector_tile_unaligned(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "vector-alignment",
        "done()",
        """\
DecompositionError[vector-alignment]: a vector of 4 elements of A starts at block_m * 576 + thread_m * 18 + k * 8 + thread_k2 * 4, which 4 does not divide
  --> test_vector_tile_unaligned.py:13:43
13 |         return move.tile(1, 4).to(Thread).done()
   |                                           ^^^^^^
at:  MatMul 64x64x18 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > tile 1x4 to Thread
fix: use narrower tiles, or declare sizes by symbol(name, multiple_of=n)""",  # noqa: E501
    )
