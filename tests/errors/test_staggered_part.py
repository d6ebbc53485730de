"""staggered() on a tile that is a part of the persistent tile."""

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
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .staggered(2)
        .split(16)
        .unroll()
        .done()
    )


def test_staggered_part(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) lets units of Warpgroup take whole tiles of MatMul 128x128x64 in turn, and this tile is MatMul 64x128x64
  --> test_staggered_part.py:25:10
25 |         .staggered(2)
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup
fix: tile(m, n).to(Warpgroup).staggered(2) with the block's own m and n""",  # noqa: E501
    )
