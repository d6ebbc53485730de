"""A microkernel for a tile with a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul, microkernel


def wrong() -> Any:
    dot = microkernel("for (int k = 0; k < K; ++k) C[0] += A[k * A_col] * B[k * B_row];", name="dot")
    chain = matmul(16, 16, 16, batch=2).tile(16, 16, batch=2).to(Block).epilog(memory=RF).split(8)
    return chain.load(A, SH).load(B, SH).tile(1, 1).to(Thread).done(dot)


def test_microkernel_batch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "microkernel-batch",
        "done(dot)",
        """\
DecompositionError[microkernel-batch]: microkernel dot takes rows and columns, and its part of a_sh has 2 along batch
  --> test_microkernel_batch.py:14:64
14 |     return chain.load(A, SH).load(B, SH).tile(1, 1).to(Thread).done(dot)
   |                                                                ^^^^^^^^^
at:  MatMul 2x16x16x16 @ Kernel > tile 2x16x16 to Block > epilog > split 8 > load A to SH > load B to SH > tile 1x1 to Thread
fix: tile(m, n, batch=1) above it""",  # noqa: E501
    )
