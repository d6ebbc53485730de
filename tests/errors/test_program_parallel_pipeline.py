"""A program's parallel(Warp) of a split with pipeline()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Warp


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).pipeline(2).parallel(Warp)


def test_program_parallel_pipeline(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-pipeline",
        "parallel(Warp)",
        """\
DecompositionError[parallel-pipeline]: a refinement of the loop over n stands above, and Warps take its chunks at once
  --> test_program_parallel_pipeline.py:18:85
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).pipeline(2).parallel(Warp)
   |                                                                                     ^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 4 ways
fix: split again below, and refine that loop""",
    )
