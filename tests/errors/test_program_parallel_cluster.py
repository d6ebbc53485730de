"""by_cluster() with 64 blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, by_cluster


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=64).parallel(Block, by_cluster())


def test_program_parallel_cluster(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-cluster",
        "parallel(Block, by_cluster())",
        """\
DecompositionError[parallel-cluster]: 64 chunks of n are no cluster: that has 1 to 16 blocks
  --> test_program_parallel_cluster.py:18:74
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=64).parallel(Block, by_cluster())
   |                                                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 64 ways
fix: split("n", ways=16).parallel(Block, reduce=by_cluster())""",
    )
