"""promote() below a loop over parts of the accumulators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul


def wrong() -> Any:
    chain = matmul(32, 32, 64).tile(32, 32).to(Block).epilog(memory=RF)
    chain = chain.tile(16, 32).unroll().split(16).promote().load(A, SH).load(B, SH)
    chain = chain.tile(4, 2).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_promote_place(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "promote-place",
        "promote()",
        """\
DecompositionError[promote-place]: the loop over m takes parts of acc in turn, and promote() adds to all of it
  --> test_promote_place.py:13:51
13 |     chain = chain.tile(16, 32).unroll().split(16).promote().load(A, SH).load(B, SH)
   |                                                   ^^^^^^^^^
  --> test_promote_place.py:13:19
13 |     chain = chain.tile(16, 32).unroll().split(16).promote().load(A, SH).load(B, SH)
   |                   ^^^^^^^^^^^^
at:  MatMul 32x32x64 @ Kernel > tile 32x32 to Block > epilog > tile 16x32
fix: split and promote above the tile that loops""",
    )
