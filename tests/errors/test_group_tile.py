"""A tile of several groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul


def wrong() -> Any:
    return matmul(64, 48, 32, groups=3).tile(32, 16, batch=3).to(Block).tile(1, 1).to(Thread).done()


def test_group_tile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-tile",
        "to(Block)",
        """\
DecompositionError[group-tile]: a tile of 3 groups and 32 along M does not lie in one group
  --> test_group_tile.py:12:63
12 |     return matmul(64, 48, 32, groups=3).tile(32, 16, batch=3).to(Block).tile(1, 1).to(Thread).done()
   |                                                               ^^^^^^^^^
at:  MatMul 3x64x48x32 @ Kernel
fix: tile one group at a time, by plain extents: tile(m, n, batch=1)""",
    )
