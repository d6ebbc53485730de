"""parallel(Warp) where the number of chunks is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, symbol, vector


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return (
        total(Matrix(64, symbol("N"))).tile(m=1).to(Block)
        .split(n=128).parallel(Warp).load("x", RF, vector()).done()
    )  # fmt: skip


def test_program_parallel_symbol(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "symbolic-tiles",
        "parallel(Warp)",
        """\
DecompositionError[symbolic-tiles]: (N + 127) / 128 chunks of n cannot be given to Warp: their number is not known
  --> test_program_parallel_symbol.py:20:23
20 |         .split(n=128).parallel(Warp).load("x", RF, vector()).done()
   |                       ^^^^^^^^^^^^^^
at:  Program 64xN @ Kernel > tile 1 to Block
fix: give the number of chunks: split("n", ways=n)""",
    )
