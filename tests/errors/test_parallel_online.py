"""parallel(Warp) of a loop with online()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Warp


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.logsumexp(x, "n")


def wrong() -> Any:
    return computed(Matrix(64, 512)).tile(m=4).to(Block).split("n", ways=4).online().parallel(Warp)


def test_parallel_online(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-pipeline",
        "parallel(Warp)",
        """\
DecompositionError[parallel-pipeline]: a refinement of the loop over n stands above, and Warps take its chunks at once
  --> test_parallel_online.py:18:86
18 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split("n", ways=4).online().parallel(Warp)
   |                                                                                      ^^^^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 4 ways
fix: split again below, and refine that loop""",
    )
