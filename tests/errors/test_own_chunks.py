"""Elements of a thread that cross the chunks of a Strided tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Strided, Thread, matmul


def wrong() -> Any:
    chain = matmul(24, 24, 8).tile(24, 24).to(Block).tile(Strided((3, 6), (3, 6))).unroll().epilog(memory=RF)
    chain = chain.split(8).load(A, SH).load(B, SH).tile(2, 2).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_own_chunks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "own-chunks",
        "epilog(memory=RF)",
        """\
DecompositionError[own-chunks]: the 2 elements 2:1 that a thread owns along M cross chunks of 3, which a Strided tile above left
  --> test_own_chunks.py:12:93
12 |     chain = matmul(24, 24, 8).tile(24, 24).to(Block).tile(Strided((3, 6), (3, 6))).unroll().epilog(memory=RF)
   |                                                                                             ^^^^^^^^^^^^^^^^^
at:  MatMul 24x24x8 @ Kernel > tile 24x24 to Block > tile 3 every 6x3 every 6 > epilog > store
fix: let chunks be a multiple of what a thread owns, or tile(rows, cols) without Strided(...)""",  # noqa: E501
    )
