"""early= where several blocks share a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Matrix, Thread, add, matmul

residual = Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), early=(residual,))
    chain = chain.split(32).parallel(Block).split(8).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_epilog_early_parts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-early",
        "epilog(add(residual), early=(residual,))",
        """\
DecompositionError[epilog-early]: early= loads residual before the products, but only some of the units that share \
a tile's sums run the ops
  --> test_epilog_early_parts.py:14:55
14 |     chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), early=(residual,))
   |                                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: drop early=, or let one unit compute each tile: without parallel(...) and stream_k()""",
    )
