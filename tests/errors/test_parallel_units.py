"""parallel(Warp) of three chunks in a warpgroup of four warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, Warpgroup, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 48).tile(32, 32).to(Block).epilog(memory=RF)
        .tile(32, 16).to(Warpgroup).split(16).parallel(Warp)
    )  # fmt: skip


def test_parallel_units(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-units",
        "parallel(Warp)",
        """\
DecompositionError[parallel-units]: 3 chunks of K are given to the 4 units of Warp in a Warpgroup: each must take one
  --> test_parallel_units.py:14:47
14 |         .tile(32, 16).to(Warpgroup).split(16).parallel(Warp)
   |                                               ^^^^^^^^^^^^^^
at:  MatMul 64x64x48 @ Kernel > tile 32x32 to Block > epilog RF > tile 32x16 to Warpgroup > split 16
fix: split K into 4 chunks, or choose another level""",
    )
