"""parallel(Warp) of a split of two dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Warp, tensor


@fi.program(x="m i j")
def total(x: Any) -> Any:
    return fi.sum(x, "i j")


def wrong() -> Any:
    return total(tensor(4, 32, 64)).tile(m=1).to(Block).split(i=8, j=64).parallel(Warp)


def test_split_together_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-together",
        "parallel(Warp)",
        """\
DecompositionError[split-together]: parallel(Warp) takes chunks of one dim, and this split cuts i and j
  --> test_split_together_parallel.py:18:74
18 |     return total(tensor(4, 32, 64)).tile(m=1).to(Block).split(i=8, j=64).parallel(Warp)
   |                                                                          ^^^^^^^^^^^^^^
at:  Program 4x32x64 @ Kernel > tile 1 to Block > split i 8, j 64
fix: split one dim alone for it: split("i", ways=n)""",
    )
