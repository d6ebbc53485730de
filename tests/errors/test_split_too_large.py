"""A split into chunks that are longer than K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).tile(4, 4).to(Thread).split(16)


def test_split_too_large(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-extent",
        "split(16)",
        """\
DecompositionError[split-extent]: a chunk of 16 along K is larger than the 8 elements left
  --> test_split_too_large.py:12:85
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).tile(4, 4).to(Thread).split(16)
   |                                                                                     ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8 > tile 4x4 to Thread
fix: use at most 8""",
    )
