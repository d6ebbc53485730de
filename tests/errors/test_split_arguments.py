"""A split with both a chunk and a number of chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16, ways=4)


def test_split_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        "split(16, ways=4)",
        """\
DecompositionError[split-arguments]: split is given chunks of 16 and 4 chunks at once
  --> test_split_arguments.py:12:72
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16, ways=4)
   |                                                                        ^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF
fix: write split(k), or split(ways=n, multiple_of=k)""",
    )
