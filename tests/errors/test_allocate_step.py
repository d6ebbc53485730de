"""An allocation for an array of the call, which is no temporary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import SH, Block, Matrix


@fi.program(x="m n")
def distances(x: Any) -> Any:
    square = (x * x).named("square")
    return fi.sum(square, over="n")


def wrong() -> Any:
    return distances(Matrix(64, 512)).tile(m=4).to(Block).allocate("x", SH)


def test_allocate_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "allocate-step",
        'allocate("x", SH)',
        """\
DecompositionError[allocate-step]: x lies in the memory of the call: allocate() takes results between steps
  --> test_allocate_step.py:19:59
19 |     return distances(Matrix(64, 512)).tile(m=4).to(Block).allocate("x", SH)
   |                                                           ^^^^^^^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block
fix: name one of square""",
    )
