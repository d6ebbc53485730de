"""by_cluster() below a split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, by_cluster


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split(n=32).split("n", ways=2).parallel(Block, by_cluster())


def test_program_parallel_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-order",
        "parallel(Block, by_cluster())",
        """\
DecompositionError[parallel-order]: blocks take chunks of the whole n, and a split stands above
  --> test_program_parallel_order.py:18:85
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split(n=32).split("n", ways=2).parallel(Block, by_cluster())
   |                                                                                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 32 > split n 2 ways
fix: make this the first split below the tile to Block""",
    )
