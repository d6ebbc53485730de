"""A load to registers of elements x[n // 4] by tiles that may start at any n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x[:, fi.index("n") // 4] * 1.0


def wrong() -> Any:
    return function(Matrix(64, 64)).tile(m=8, n=6).to(Block).load("x", RF).tile(m=1, n=1)


def test_map_box(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "map-box",
        'load("x", RF)',
        """\
DecompositionError[map-box]: which elements a tile reads along n / 4 depends on where the tile lies
  --> test_map_box.py:18:62
18 |     return function(Matrix(64, 64)).tile(m=8, n=6).to(Block).load("x", RF).tile(m=1, n=1)
   |                                                              ^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 8x6 to Block
fix: tile the dim by a multiple of the number that it is divided by, or by 1; or load to SH, by points""",
    )
