"""tma() of lines whose distance is no multiple of 16 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 500, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_stride(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-stride",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-stride]: lines of A[512, 500].f16.GL lie 1000 bytes apart, and tma.load.2d.128B takes multiples of 16
  --> test_tma_stride.py:21:10
21 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x500 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > tile 128x64 > tile 128x64 to Thread
fix: pad lines to multiples of 8 elements (ld=), or load by cp_async()""",  # noqa: E501
    )
