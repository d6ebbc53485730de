"""A bulk copy of lines that start at the first row of a group, which may be any row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(1024, 256, 512, "bf16", layout="NT", groups=4)
        .tile(128, 128, batch=1)
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


def test_bulk_start(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-start",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-start]: lines of a box of A start at M = group_begin + tile_m * 128 + m * 64, and tma.load.2d.128B starts at multiples of 16 bytes
  --> test_bulk_start.py:21:10
21 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 4x1024x256x512 @ Kernel > tile 1x128x128 to Block > epilog > split 64 > load A to SH > tile 64x64 > tile 64x64 to Thread
fix: tile M by multiples of 8 elements, or load by cp_async(): what groups or windows cut starts anywhere""",  # noqa: E501
    )
