"""A tile to Warp inside a tile to Thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Thread, Warp, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(4, 4).to(Block).epilog(memory=RF).tile(2, 2).to(Thread, units=4).tile(1, 1).to(Warp)


def test_warps_of_quadpairs(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-nests",
        "to(Warp)",
        """\
DecompositionError[level-nests]: cannot map tiles of MatMul 2x2x64 to Warp: the spec is already at level Thread
  --> test_warps_of_quadpairs.py:12:112
12 |     return matmul(64, 64, 64).tile(4, 4).to(Block).epilog(memory=RF).tile(2, 2).to(Thread, units=4).tile(1, 1).to(Warp)
   |                                                                                                                ^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 4x4 to Block > epilog RF > tile 2x2 to Thread > tile 1x1
fix: tile to Warp before Thread, or drop this link""",  # noqa: E501
    )
