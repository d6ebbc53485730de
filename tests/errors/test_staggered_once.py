"""staggered() without a persistent loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(128, 128)
        .to(Warpgroup)
        .staggered(2)
        .split(16)
        .unroll()
        .tile(64, 128)
        .unroll()
        .done()
    )


def test_staggered_once(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) shares out the trips of a persistent loop, and there is none
  --> test_staggered_once.py:24:10
24 |         .staggered(2)
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH
fix: refine the grid's tile by .persistent()""",
    )
