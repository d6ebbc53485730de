"""A program's split with both a chunk and a number of chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=2, n=32)


def test_split_chunk_and_ways(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        'split("n", ways=2, n=32)',
        """\
DecompositionError[split-arguments]: split is given both chunks and their number
  --> test_split_chunk_and_ways.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=2, n=32)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: write split(j=128), or split("j", ways=8)""",
    )
