"""staggered() below a loop over tiles in the persistent loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    chain = matmul(512, 512, 512, "f16", layout="TN").tile(512, 256).tile(128, 128).to(Block).persistent()
    chain = chain.epilog().split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(128, 128).to(Warpgroup).staggered(2)


def test_staggered_loop(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) shares out the trips of one persistent loop, and the tile above Block repeats that loop
  --> test_staggered_loop.py:14:47
14 |     return chain.tile(128, 128).to(Warpgroup).staggered(2)
   |                                               ^^^^^^^^^^^^
  --> test_staggered_loop.py:12:55
12 |     chain = matmul(512, 512, 512, "f16", layout="TN").tile(512, 256).tile(128, 128).to(Block).persistent()
   |                                                       ^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 512x256 > tile 128x128 to Block > epilog RF > split 64 > load A to SH > load B to SH > tile 128x128 to Warpgroup
fix: drop the tile above the one of Block, or staggered()""",  # noqa: E501
    )
