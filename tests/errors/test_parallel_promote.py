"""parallel(Warp) of a split with promote()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, matmul


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(64, 64).to(Block).epilog(memory=RF)
    return chain.split(16).promote().parallel(Warp)


def test_parallel_promote(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-promote",
        "parallel(Warp)",
        """\
DecompositionError[parallel-promote]: promote() adds up chunks in turn, and Warps take those of this split at once
  --> test_parallel_promote.py:13:38
13 |     return chain.split(16).promote().parallel(Warp)
   |                                      ^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog RF > split 16
fix: split again below, and refine that split by promote()""",
    )
