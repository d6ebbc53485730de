"""addends= where several blocks share a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Matrix, Thread, add, matmul

residual = Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), addends=True)
    chain = chain.split(32).parallel(Block).split(8).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_epilog_addends_parts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-addends",
        "epilog(add(residual), addends=True)",
        """\
DecompositionError[epilog-addends]: addends= starts a tile's sums, and several units hold parts of these sums
  --> test_epilog_addends_parts.py:14:55
14 |     chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), addends=True)
   |                                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: drop addends=, or let one unit compute each tile: without parallel(...) and stream_k()""",
    )
