"""tma(48); no bulk copy swizzles rows of 48 bytes."""

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
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma(48))
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_span(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-span",
        "tma(48)",
        """\
DecompositionError[bulk-span]: tma(48): no bulk copy swizzles rows of 48 bytes
  --> test_tma_span.py:21:22
21 |         .load(A, SH, tma(48))
   |                      ^^^^^^^
fix: use rows of 128, 64 or 32 bytes, or 0 for plain ones""",
    )
