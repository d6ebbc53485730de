"""parallel(Warp) below staggered()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, Warpgroup, matmul, tma


def wrong() -> Any:
    chain = matmul(512, 512, 512, "f16", layout="TN").tile(128, 128).to(Block).persistent().epilog(memory=FR)
    chain = chain.split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(128, 128).to(Warpgroup).staggered(2).split(ways=4, multiple_of=16).parallel(Warp)


def test_staggered_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "parallel(Warp)",
        """\
DecompositionError[staggered-units]: Warps would share the K of a tile that staggered(2) gives to one Warpgroup
  --> test_staggered_parallel.py:14:90
14 |     return chain.tile(128, 128).to(Warpgroup).staggered(2).split(ways=4, multiple_of=16).parallel(Warp)
   |                                                                                          ^^^^^^^^^^^^^^
  --> test_staggered_parallel.py:14:47
14 |     return chain.tile(128, 128).to(Warpgroup).staggered(2).split(ways=4, multiple_of=16).parallel(Warp)
   |                                               ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64 > load A to SH > load B to SH > tile 128x128 to Warpgroup > split 4 ways
fix: drop staggered(), or split over Block above it""",  # noqa: E501
    )
