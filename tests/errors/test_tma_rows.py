"""tma() of rows that are no whole number of spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(96)
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


def test_tma_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-storage",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-storage]: rows of 96 elements of f16 are no whole number of 128-byte spans
  --> test_tma_rows.py:21:10
21 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 96
fix: use a multiple of 64 elements, or a narrower span: tma(64)""",
    )
