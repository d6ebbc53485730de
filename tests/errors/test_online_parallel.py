"""online() on chunks that warps share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Warp


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.logsumexp(x, "n")


def wrong() -> Any:
    return computed(Matrix(64, 512)).tile(m=4).to(Block).split("n", ways=4).parallel(Warp).online()


def test_online_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-parallel",
        "online()",
        """\
DecompositionError[online-parallel]: online() needs a loop over n, and units of Warp take its chunks at once
  --> test_online_parallel.py:18:92
18 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split("n", ways=4).parallel(Warp).online()
   |                                                                                            ^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 4 ways to Warp
fix: split(n=...).online() above, and split again below it for the units""",
    )
