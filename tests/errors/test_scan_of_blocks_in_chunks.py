"""A cumulative sum that blocks share above a loop over chunks: blocks would wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, vector


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.cumsum(x, "n")


def wrong() -> Any:
    parts = sums(Matrix(8, 512)).tile(m=1).to(Block).split("n", ways=2).parallel(Block)
    return parts.split(n=128).load("x", RF, vector()).done()


def test_scan_of_blocks_in_chunks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "scan-order",
        "split(n=128)",
        """\
DecompositionError[scan-order]: step cumsum keeps running results along n, and blocks share n above a loop over chunks
  --> test_scan_of_blocks_in_chunks.py:19:18
19 |     return parts.split(n=128).load("x", RF, vector()).done()
   |                  ^^^^^^^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block > split n 2 ways to Block
fix: give each block one part of n: more blocks, or drop the loop over chunks""",
    )
