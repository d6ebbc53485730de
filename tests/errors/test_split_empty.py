"""A program's split into chunks of 0 elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split(n=0)


def test_split_empty(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-extent",
        "split(n=0)",
        """\
DecompositionError[split-extent]: a chunk of 0 elements along n is empty
  --> test_split_empty.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split(n=0)
   |                                                      ^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: use 1 or more""",
    )
