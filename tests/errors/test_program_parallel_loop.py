"""parallel(Block) where each block loops over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return (
        total(Matrix(8, 512))
        .tile(m=2)
        .to(Block)
        .split("n", ways=2)
        .parallel(Block)
        .tile(m=1)
        .split("n", ways=2)
        .parallel(Warp)
        .load("x", RF, vector())
        .done()
    )


def test_program_parallel_loop(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-loop",
        "parallel(Block)",
        """\
DecompositionError[parallel-loop]: blocks share n, and sum is folded in a loop of each block: states of its \
trips would mix
  --> test_program_parallel_loop.py:23:10
23 |         .parallel(Block)
   |          ^^^^^^^^^^^^^^^
at:  Program 8x512 @ Kernel > tile 2 to Block
fix: give each unit one part: no loop of tiles below the split of n""",
    )
