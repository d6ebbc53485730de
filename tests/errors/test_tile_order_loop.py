"""Grouped(2) for a loop, which has no units that take tiles together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Grouped, Thread, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 32)
        .tile(64, 64).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(32, 32).to(Warp).tile(8, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
        .tile(1, 1).layout(Grouped(2)).unroll().done()
    )  # fmt: skip


def test_tile_order_loop(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-order",
        "layout(Grouped(2))",
        """\
DecompositionError[tile-order]: Grouped(2) counts the tiles of units, and a loop visits these
  --> test_tile_order_loop.py:16:21
16 |         .tile(1, 1).layout(Grouped(2)).unroll().done()
   |                     ^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x32 @ Kernel > tile 64x64 to Block > epilog > split 8 > load A to SH > load B to SH > \
tile 32x32 to Warp > tile 8x4 to Thread > split 1 > load A to RF > load B to RF
fix: use RowMajor, ColMajor or Serpentine(), or give the tiles to units: .to(level)""",
    )
