"""by_tma() where the output is not an input plus the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, by_tma


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n").named("size")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Block, by_tma())


def test_program_parallel_blocks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-reduce",
        "parallel(Block, by_tma())",
        """\
DecompositionError[parallel-reduce]: by_tma(): each block adds its own part of size to an output, which is not an \
input plus size
  --> test_program_parallel_blocks.py:18:73
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Block, by_tma())
   |                                                                         ^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 4 ways
fix: write `before + sum` with out=inplace("before") for this output, or drop reduce=by_tma()""",
    )
