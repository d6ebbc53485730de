"""parallel(Warp) where the number of chunks of K is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, matmul, symbol


def wrong() -> Any:
    return matmul(64, 64, symbol("K")).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp)


def test_parallel_ways(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-ways",
        "parallel(Warp)",
        """\
DecompositionError[parallel-ways]: the number of chunks of 16 for Warps is not known: the extent of K is K
  --> test_parallel_ways.py:12:91
12 |     return matmul(64, 64, symbol("K")).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp)
   |                                                                                           ^^^^^^^^^^^^^^
at:  MatMul 64x64xK @ Kernel > tile 32x32 to Block > epilog RF > split 16
fix: write split(ways=n, multiple_of=16), or split above by a number""",
    )
