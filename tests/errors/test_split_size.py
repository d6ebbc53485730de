"""A split into chunks of 0 elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(0)


def test_split_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-extent",
        "split(0)",
        """\
DecompositionError[split-extent]: a chunk of 0 elements along K is empty
  --> test_split_size.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(0)
   |                                                      ^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: split by 1 or more""",
    )
