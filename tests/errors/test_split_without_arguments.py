"""A split without arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split()


def test_split_without_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        "split()",
        """\
DecompositionError[split-arguments]: split is given neither a chunk nor a number of chunks
  --> test_split_without_arguments.py:12:72
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split()
   |                                                                        ^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF
fix: write split(k), or split(ways=n, multiple_of=k)""",
    )
