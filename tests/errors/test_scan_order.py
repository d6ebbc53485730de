"""A cumulative sum that warps share above a loop over chunks: warps would wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.cumsum(x, "n")


def wrong() -> Any:
    return (
        sums(Matrix(8, 512))
        .tile(m=1)
        .to(Block)
        .split("n", ways=2)
        .parallel(Warp)
        .split(n=64)
        .load("x", RF, vector())
        .done()
    )


def test_scan_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "scan-order",
        "split(n=64)",
        """\
DecompositionError[scan-order]: step cumsum keeps running results along n, and warps share n above a loop over chunks
  --> test_scan_order.py:24:10
24 |         .split(n=64)
   |          ^^^^^^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block > split n 2 ways to Warp
fix: write split(n=...) above split("n", ways=n).parallel(Warp), and load what it reads by vector()""",
    )
