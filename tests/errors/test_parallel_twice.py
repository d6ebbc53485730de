"""parallel(Warpgroup), and parallel(Warp) below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, Warpgroup, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF)
        .split(32).parallel(Warpgroup).split(8).parallel(Warp)
    )  # fmt: skip


def test_parallel_twice(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "second-parallel",
        "parallel(Warp)",
        """\
DecompositionError[second-parallel]: this split gives chunks of K to Warps, and a split above gives K to units of the block already
  --> test_parallel_twice.py:14:49
14 |         .split(32).parallel(Warpgroup).split(8).parallel(Warp)
   |                                                 ^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 32 to Warpgroup > split 8
fix: split K once over blocks, and once inside the block""",  # noqa: E501
    )
