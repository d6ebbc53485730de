"""by_atomics() for a maximum of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, by_atomics, vector


@fi.program(x="m n")
def largest(x: Any) -> Any:
    return fi.max(x, "n")


def wrong() -> Any:
    return (
        largest(Matrix(8, 512))
        .tile(m=1)
        .to(Block)
        .split("n", ways=2)
        .parallel(Block, by_atomics())
        .split("n", ways=2)
        .parallel(Warp)
        .load("x", RF, vector())
        .done()
    )


def test_program_parallel_atomics(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-atomics",
        "parallel(Block, by_atomics())",
        """\
DecompositionError[parallel-atomics]: largest folds by max in f32, and no atomic does that
  --> test_program_parallel_atomics.py:23:10
23 |         .parallel(Block, by_atomics())
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block
fix: drop reduce=by_atomics()""",
    )
