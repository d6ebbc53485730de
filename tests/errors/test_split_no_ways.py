"""A split into 0 chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(ways=0)


def test_split_no_ways(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        "split(ways=0)",
        """\
DecompositionError[split-arguments]: split into 0 chunks, multiples of 1
  --> test_split_no_ways.py:12:72
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(ways=0)
   |                                                                        ^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF
fix: both are whole numbers of 1 and more""",
    )
