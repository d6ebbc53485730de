"""A store that touches the registers of other threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul


def wrong() -> Any:
    def rows(move: Any) -> Any:
        return move.tile(1, 8).to(Thread).tile(1, 1).unroll().done()

    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF, store=rows)
        .split(8)
        .load(A, SH)
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


def test_ownership_conflict(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "ownership-conflict",
        "done()",
        """\
DecompositionError[ownership-conflict]: Move(1, 1)(RF, GL)(Thread) lets thread 0 touch element (0, 2) of acc, which fma.f32 (done) gives to another thread
  --> test_ownership_conflict.py:13:63
13 |         return move.tile(1, 8).to(Thread).tile(1, 1).unroll().done()
   |                                                               ^^^^^^
  --> test_ownership_conflict.py:31:10
31 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > store > tile 1x8 to Thread > tile 1x1 > done
fix: move it by conform() or own(Thread), or convert by a Move through shared memory""",  # noqa: E501
    )
