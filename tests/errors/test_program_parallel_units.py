"""A program's parallel(Warp) of three chunks in a warpgroup of four warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, Warpgroup, vector


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return (
        total(Matrix(64, 96)).tile(m=4).to(Block).tile(m=1).to(Warpgroup)
        .split("n", ways=3).parallel(Warp).load("x", RF, vector()).done()
    )  # fmt: skip


def test_program_parallel_units(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-units",
        "parallel(Warp)",
        """\
DecompositionError[parallel-units]: 3 chunks of n go to 4 units of Warp
  --> test_program_parallel_units.py:20:29
20 |         .split("n", ways=3).parallel(Warp).load("x", RF, vector()).done()
   |                             ^^^^^^^^^^^^^^
at:  Program 64x96 @ Kernel > tile 4 to Block > tile 1 to Warpgroup
fix: split("n", ways=4).parallel(Warp)""",
    )
