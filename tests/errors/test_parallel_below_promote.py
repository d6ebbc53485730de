"""parallel(Warp) below promote()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, matmul


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(64, 64).to(Block).epilog(memory=RF)
    return chain.split(16).promote().split(4).parallel(Warp)


def test_parallel_below_promote(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-promote",
        "parallel(Warp)",
        """\
DecompositionError[parallel-promote]: promote() above adds each chunk to the accumulators in turn, and Warps would share that chunk
  --> test_parallel_below_promote.py:13:47
13 |     return chain.split(16).promote().split(4).parallel(Warp)
   |                                               ^^^^^^^^^^^^^^
  --> test_parallel_below_promote.py:13:28
13 |     return chain.split(16).promote().split(4).parallel(Warp)
   |                            ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog RF > split 16 > split 4
fix: write split(...).parallel(...) above the split that promotes""",  # noqa: E501
    )
