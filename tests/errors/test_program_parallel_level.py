"""A program's parallel(Warp) above the tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Warp


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).split("n", ways=4).parallel(Warp)


def test_program_parallel_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-level",
        "parallel(Warp)",
        """\
DecompositionError[parallel-level]: units of Warp cannot take chunks of n at level Kernel
  --> test_program_parallel_level.py:18:53
18 |     return total(Matrix(64, 64)).split("n", ways=4).parallel(Warp)
   |                                                     ^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > split n 4 ways
fix: tile to Block first, then give chunks to Warpgroup, Warp or Thread""",
    )
