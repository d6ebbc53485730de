"""A bulk copy that would convert the element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f32", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(32)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma(), dtype="tf32")
        .load(B, SH, tma(), dtype="tf32")
        .tile(64, 128)
        .to(Warpgroup)
        .split(8)
        .unroll()
        .done()
    )


def test_tma_converts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-dtype",
        'load(A, SH, tma(), dtype="tf32")',
        """\
DecompositionError[bulk-dtype]: tma.load.2d.128B does not convert f32 to tf32
  --> test_tma_converts.py:21:10
21 |         .load(A, SH, tma(), dtype="tf32")
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 32 > load A to SH > tile 128x32 > tile 128x32 to Thread
fix: convert where registers hold the values""",  # noqa: E501
    )
