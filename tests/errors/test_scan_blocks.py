"""Blocks that share running results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.cumsum(x, "n")


def wrong() -> Any:
    return sums(Matrix(8, 512)).tile(m=1).to(Block).split("n", ways=2).parallel(Block).done()


def test_scan_blocks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "scan-blocks",
        "parallel(Block)",
        """\
DecompositionError[scan-blocks]: step cumsum keeps running results along n, and blocks would wait for each other
  --> test_scan_blocks.py:18:72
18 |     return sums(Matrix(8, 512)).tile(m=1).to(Block).split("n", ways=2).parallel(Block).done()
   |                                                                        ^^^^^^^^^^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block
fix: let one block have n: a loop over chunks, and parallel(Warp) in it""",
    )
