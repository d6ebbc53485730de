"""Persistent blocks with more ways than K has chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(256, 256, 256, "bf16", layout="TN")
        .tile(64, 128).to(Block).persistent().epilog(memory=FR)
        .split(ways=6, multiple_of=64).parallel(Block)
        .split(64).pipeline(2).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def test_parallel_ways_empty(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-ways",
        "parallel(Block)",
        """\
DecompositionError[parallel-ways]: 6 ways of 64 leave 2 of them without a part of K = 256
  --> test_parallel_ways_empty.py:15:40
15 |         .split(ways=6, multiple_of=64).parallel(Block)
   |                                        ^^^^^^^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel > tile 64x128 to Block > epilog
fix: split K 4 ways, or into smaller chunks""",
    )
