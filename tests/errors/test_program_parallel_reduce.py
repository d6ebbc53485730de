"""by_atomics() for warps, in a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Warp, by_atomics


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Warp, by_atomics())


def test_program_parallel_reduce(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-reduce",
        "parallel(Warp, by_atomics())",
        """\
DecompositionError[parallel-reduce]: Warps of a block combine folds in order, not by atomics
  --> test_program_parallel_reduce.py:18:73
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Warp, by_atomics())
   |                                                                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 4 ways
fix: drop reduce=""",
    )
