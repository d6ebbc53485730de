"""A split of a dim that the program does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split(k=32)


def test_split_no_such_dimension(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-dimension",
        "split(k=32)",
        """\
DecompositionError[no-such-dimension]: Program 1x64 has no dimension k to split
  --> test_split_no_such_dimension.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split(k=32)
   |                                                      ^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: dimensions: m, n""",
    )
