"""A loop over parts of the chunks of an online loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Thread


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return (
        computed(Matrix(4, 64)).tile(m=1).to(Block).split(n=16).online()
        .split(n=8)
        .tile(m=1).to(Thread).done()
    )  # fmt: skip


def test_online_inside(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-inside",
        "split(n=8)",
        """\
DecompositionError[online-inside]: online() corrects folds by top once a chunk of n, and this split cuts chunks
  --> test_online_inside.py:20:10
20 |         .split(n=8)
   |          ^^^^^^^^^^
at:  Program 4x64 @ Kernel > tile 1 to Block > split n 16
fix: drop this split, and give split(...).online() its chunks of n""",
    )
