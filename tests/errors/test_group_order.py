"""A layout of tiles for groups, whose number of tiles only the kernel finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Layout, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 48, 32, groups=3)
        .tile(32, 16, batch=1)
        .to(Block)
        .layout(Layout((2, 3), (3, 1)))
        .tile(1, 1)
        .to(Thread)
        .done()
    )


def test_group_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-order",
        "layout(Layout((2, 3), (3, 1)))",
        """\
DecompositionError[group-order]: layout (2,3):(3,1) needs the number of tiles, which the groups of a call decide
  --> test_group_order.py:16:10
16 |         .layout(Layout((2, 3), (3, 1)))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 3x64x48x32 @ Kernel
fix: use RowMajor, ColMajor, Grouped(n) or Hilbert(n)""",
    )
