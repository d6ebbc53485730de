"""layout() with an order that gives one tile to two units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Layout, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .tile(4, 8)
        .to(Thread)
        .layout(Layout((4, 8), (4, 4)))
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_layout_of_units(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "not-a-permutation",
        "layout(Layout((4, 8), (4, 4)))",
        """\
DecompositionError[not-a-permutation]: layout (4,8):(4,4) sends both 1 and 4 to 4: it does not permute the ids of 32 units
  --> test_layout_of_units.py:19:10
19 |         .layout(Layout((4, 8), (4, 4)))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog
fix: map 0..31 one to one onto 0..31""",  # noqa: E501
    )
