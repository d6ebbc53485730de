"""A microkernel on a swizzled buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Swizzle, Thread, matmul, microkernel


def wrong() -> Any:
    dot = microkernel("for (int k = 0; k < K; ++k) C[0] += A[k * A_col] * B[k * B_row];", name="dot")
    return (
        matmul(16, 16, 16)
        .tile(16, 16)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH)
        .swizzle(Swizzle(2, 0, 3))
        .load(B, SH)
        .tile(1, 1)
        .to(Thread)
        .done(dot)
    )


def test_microkernel_strides(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "microkernel-strides",
        "done(dot)",
        """\
DecompositionError[microkernel-strides]: microkernel dot would see a_sh at irregular places along M
  --> test_microkernel_strides.py:24:10
24 |         .done(dot)
   |          ^^^^^^^^^
at:  MatMul 16x16x16 @ Kernel > tile 16x16 to Block > epilog > split 8 > load A to SH > load B to SH > tile 1x1 to Thread
fix: microkernels take plainly strided tiles: no Strided tile, swizzle or hierarchical storage above them""",  # noqa: E501
    )
