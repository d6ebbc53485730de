"""A program's split without a dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split()


def test_split_no_dim(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        "split()",
        """\
DecompositionError[split-arguments]: split is given no chunks and no number of them
  --> test_split_no_dim.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split()
   |                                                      ^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: write split(j=128), or split("j", ways=8)""",
    )
