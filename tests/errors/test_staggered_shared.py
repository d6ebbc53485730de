"""staggered() below parallel(Warpgroup)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    chain = matmul(512, 512, 512, "f16", layout="TN").tile(128, 128).to(Block).persistent().epilog(memory=FR)
    chain = chain.split(ways=4, multiple_of=64).parallel(Warpgroup).split(64).pipeline(3).specialize()
    return chain.load(A, SH, tma()).load(B, SH, tma()).tile(128, 128).to(Warpgroup).staggered(2)


def test_staggered_shared(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) lets units of Warpgroup take whole tiles in turn, and split 4 ways to Warpgroup lets units of the block share the K of one
  --> test_staggered_shared.py:14:85
14 |     return chain.load(A, SH, tma()).load(B, SH, tma()).tile(128, 128).to(Warpgroup).staggered(2)
   |                                                                                     ^^^^^^^^^^^^
  --> test_staggered_shared.py:13:49
13 |     chain = chain.split(ways=4, multiple_of=64).parallel(Warpgroup).split(64).pipeline(3).specialize()
   |                                                 ^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 4 ways to Warpgroup > split 64 > load A to SH > load B to SH > tile 128x128 to Warpgroup
fix: drop staggered(), or split over Block""",  # noqa: E501
    )
