"""A cumulative sum over persistent blocks, which might wait for blocks that have not started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.cumsum(x, "n")


def wrong() -> Any:
    parts = sums(Matrix(8, 512)).tile(m=1).to(Block).persistent().split("n", ways=2).parallel(Block)
    return parts.split("n", ways=2).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()


def test_scan_blocks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "scan-blocks",
        "done()",
        """\
DecompositionError[scan-blocks]: step cumsum keeps running results, and persistent blocks would wait for later ones
  --> test_scan_blocks.py:19:94
19 |     return parts.split("n", ways=2).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()
   |                                                                                              ^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block > split n 2 ways to Block > split n 2 ways to Warp > load x to RF
fix: drop persistent(), or let a cluster have the row: parallel(Block, reduce=by_cluster())""",
    )
