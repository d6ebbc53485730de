"""stream_k() for groups, whose number of tiles only the kernel finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Grouped, Thread, matmul, stream_k


def wrong() -> Any:
    blocks = matmul(64, 48, 32, groups=3).tile(32, 16, batch=1).to(Block).persistent(Grouped(8), stream_k(132))
    return blocks.tile(1, 1).to(Thread).done()


def test_group_share(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "group-share",
        "persistent(Grouped(8), stream_k(132))",
        """\
DecompositionError[group-share]: stream-K over 132 divides the chunks of all tiles, and the groups of a call decide how many there are
  --> test_group_share.py:12:75
12 |     blocks = matmul(64, 48, 32, groups=3).tile(32, 16, batch=1).to(Block).persistent(Grouped(8), stream_k(132))
   |                                                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 3x64x48x32 @ Kernel
fix: drop the shares of K: persistent(order)""",  # noqa: E501
    )
