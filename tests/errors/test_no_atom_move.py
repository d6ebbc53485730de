"""A Move of a vector whose elements are not contiguous on one side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul


def wrong() -> Any:
    def columns(move: Any) -> Any:
        return move.tile(4, 1).to(Thread).done()

    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH, columns)
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


def test_no_atom_move(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes Move(4, 1)(GL, SH)(Thread): its 4 elements do not lie together in A
  --> test_no_atom_move.py:13:43
13 |         return move.tile(4, 1).to(Thread).done()
   |                                           ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > tile 4x1 to Thread
fix: tile along the contiguous dimension, or tile(1, 1)""",
    )
