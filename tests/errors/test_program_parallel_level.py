"""Blocks that share a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Block)


def test_program_parallel_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-level",
        "parallel(Block)",
        """\
DecompositionError[parallel-level]: units of Block cannot take chunks of n at level Block
  --> test_program_parallel_level.py:18:73
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).split("n", ways=4).parallel(Block)
   |                                                                         ^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > split n 4 ways
fix: tile to Block first, then give chunks to Warpgroup, Warp or Thread""",
    )
