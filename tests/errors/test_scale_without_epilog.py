"""A product with alpha and without an epilog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, alpha=2.0)
        .tile(32, 32)
        .to(Block)
        .tile(1, 1)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .done()
    )


def test_scale_without_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "scale-without-epilog",
        "done()",
        """\
DecompositionError[scale-without-epilog]: alpha, beta and ops are applied by an epilog, and this chain has none
  --> test_scale_without_epilog.py:21:10
21 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > tile 1x1 to Thread > split 1 > load A to RF > load B to RF
fix: add .epilog(...) below the tile to Block""",
    )
