"""A load to registers where several points read one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Thread, conform


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x[:, fi.index("n") + fi.dim("r", 3) - 1], "r")


def wrong() -> Any:
    tiles = function(Matrix(64, 64)).tile(m=8, n=16).to(Block).tile(m=1, n=4).to(Thread)
    return tiles.load("x", RF, conform()).done()


def test_map_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "map-registers",
        'load("x", RF, conform())',
        """\
DecompositionError[map-registers]: points of n, r share elements of x, and each has registers of its own
  --> test_map_registers.py:19:18
19 |     return tiles.load("x", RF, conform()).done()
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64x3 @ Kernel > tile 8x16 to Block > tile 1x4 to Thread
fix: leave this load out, or cut all of n, r but one to 1 above it""",
    )
