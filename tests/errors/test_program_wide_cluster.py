"""A cluster of 16 blocks for a GPU whose clusters have 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, by_cluster


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    chain = total(Matrix(64, 64), arch="sm_120").tile(m=1).to(Block)
    return chain.split("n", ways=16).parallel(Block, by_cluster())


def test_program_wide_cluster(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "parallel(Block, by_cluster())",
        """\
DecompositionError[arch]: clusters of 16 blocks need sm_90, not sm_120
  --> test_program_wide_cluster.py:19:38
19 |     return chain.split("n", ways=16).parallel(Block, by_cluster())
   |                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 16 ways to Block
fix: use clusters of at most 8 blocks""",
    )
