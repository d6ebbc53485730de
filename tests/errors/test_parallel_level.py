"""parallel(QuadPair): the numbers of a quad-pair's threads are not consecutive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, QuadPair, Warp, matmul


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).tile(16, 16).to(Warp)
    return chain.split(16).parallel(QuadPair)


def test_parallel_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-level",
        "parallel(QuadPair)",
        """\
DecompositionError[parallel-level]: units of QuadPair cannot take chunks of MatMul 16x16x64, which is at level Warp
  --> test_parallel_level.py:13:28
13 |     return chain.split(16).parallel(QuadPair)
   |                            ^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > tile 16x16 to Warp > split 16
fix: give chunks to Block, Warpgroup, Warp, Thread or a Group of them inside the present level, below \
tile(...).to(Block)""",
    )
