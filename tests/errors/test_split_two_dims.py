"""A split of two dims at once."""

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


def test_split_two_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        "split(m=1, n=32)",
        """\
DecompositionError[split-arguments]: split cuts one dim, not m and n
  --> test_split_two_dims.py:18:56
18 |     return softmax(Matrix(64, 64)).tile(m=8).to(Block).split(m=1, n=32)
   |                                                        ^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 8 to Block
fix: write split(j=128), or split("j", ways=8)""",
    )
