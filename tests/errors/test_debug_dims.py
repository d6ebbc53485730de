"""A debug op with three coordinates for elements of two dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Thread, debug, matmul


def wrong() -> Any:
    tiled = matmul(64, 64, 8).tile(16, 16).to(Block)
    summed = tiled.epilog(debug("sum", at=(0, 3, 5)), memory=RF)
    return summed.tile(1, 1).to(Thread).split(1).done().cuda()


def test_debug_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-debug",
        'epilog(debug("sum", at=(0, 3, 5)), memory=RF)',
        """\
SpecError[bad-debug]: debug('sum', at=(0, 3, 5)) names an element by 3 coordinates, and elements have 2 here
  --> test_debug_dims.py:13:20
13 |     summed = tiled.epilog(debug("sum", at=(0, 3, 5)), memory=RF)
   |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x8 @ Kernel > tile 16x16 to Block
fix: give 2 coordinates in at=""",
    )
