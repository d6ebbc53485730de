"""A tile to Block without batch=, for a product with a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, batch=4)
        .tile(32, 32)
        .to(Block)
        .tile(4, 2)
        .to(Thread)
        .epilog(memory=RF)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_tile_leaves_batch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-gaps",
        "to(Block)",
        """\
DecompositionError[tile-gaps]: tiles of MatMul 4x64x64x64 leave batch whole in every block
  --> test_tile_leaves_batch.py:15:10
15 |         .to(Block)
   |          ^^^^^^^^^
at:  MatMul 4x64x64x64 @ Kernel
fix: size the tile in that dimension too: tile(m, n, batch=1)""",
    )
