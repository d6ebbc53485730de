"""A tile without a level above the one that takes a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 48, 32, groups=3)
        .tile(32, 16, batch=1)
        .tile(32, 16).to(Block)
        .tile(1, 1).to(Thread).done()
    )  # fmt: skip


def test_group_unopened(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-tile",
        "tile(32, 16, batch=1)",
        """\
DecompositionError[group-tile]: the M of MatMul 3x64x48x32 depends on the group, and no tile above takes one
  --> test_group_unopened.py:14:10
14 |         .tile(32, 16, batch=1)
   |          ^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 3x64x48x32 @ Kernel
fix: tile one group at a time first: tile(m, n, batch=1).to(Block)""",
    )
