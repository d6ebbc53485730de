"""A split of two dims where a step folds only one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return softmax(Matrix(64, 64)).tile(m=8).to(Block).split(m=1, n=32)


def test_split_together(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-together",
        "split(m=1, n=32)",
        """\
DecompositionError[split-together]: one loop over m and n visits their chunks together, and step top does not fold m
  --> test_split_together.py:18:56
18 |     return softmax(Matrix(64, 64)).tile(m=8).to(Block).split(m=1, n=32)
   |                                                        ^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 8 to Block
fix: write a split for each dim: split(i=...).split(j=...)""",
    )
