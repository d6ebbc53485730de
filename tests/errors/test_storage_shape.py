"""storage_layout() with a layout of another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Layout, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH)
        .storage_layout(Layout((16, 8), (8, 1)))
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_storage_shape(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "storage-shape",
        "storage_layout(Layout((16, 8), (8, 1)))",
        """\
DecompositionError[storage-shape]: storage layout (16,8):(8,1) holds 16x8 elements, the tile of A is 32x8
  --> test_storage_shape.py:19:10
19 |         .storage_layout(Layout((16, 8), (8, 1)))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 8 > load A to SH
fix: give a layout with one mode a dimension of the tile""",
    )
