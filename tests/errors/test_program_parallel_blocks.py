"""Blocks that share a row, and are no cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Block)


def test_program_parallel_blocks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-reduce",
        "parallel(Block)",
        """\
DecompositionError[parallel-reduce]: blocks fold parts of n as a cluster alone, not in order
  --> test_program_parallel_blocks.py:18:73
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Block)
   |                                                                         ^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 4 ways
fix: split("n", ways=4).parallel(Block, reduce=by_cluster())""",
    )
