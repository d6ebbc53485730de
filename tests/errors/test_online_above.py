"""online() below a loop over the same dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=128).split(n=32).online()


def test_online_above(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-above",
        "online()",
        """\
DecompositionError[online-above]: online() makes one loop of folds over n, which the loop above takes one after another
  --> test_online_above.py:18:83
18 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=128).split(n=32).online()
   |                                                                                   ^^^^^^^^
  --> test_online_above.py:18:58
18 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=128).split(n=32).online()
   |                                                          ^^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 128 > split n 32
fix: refine the first split of n by online(), and drop this one""",
    )
