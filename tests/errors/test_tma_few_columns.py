"""tma() of columns that are fewer than those of a span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="NN")
        .tile(128, 32)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 32)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_few_columns(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-storage",
        "load(B, SH, tma())",
        """\
DecompositionError[bulk-storage]: rows of 32 elements of f16 are no whole number of 128-byte spans
  --> test_tma_few_columns.py:22:10
22 |         .load(B, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x32 to Block > epilog > split 64 > load A to SH
fix: use a multiple of 64 elements, or a narrower span: tma(64)""",
    )
