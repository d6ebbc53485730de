"""speculate=True where no sum shows that a term exceeds the slack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n", w="m n")
def computed(x: Any, w: Any) -> Any:
    return fi.sum(w * fi.exp(x - fi.max(x, "n").named("top")), "n")


def wrong() -> Any:
    return computed(Matrix(64, 512), Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online(8, speculate=True)


def test_online_speculate(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-speculate",
        "online(8, speculate=True)",
        """\
DecompositionError[online-speculate]: no sum in the loop over n shows that a term exceeds the slack: that \
takes a sum of exponentials behind one fold, with one factor
  --> test_online_speculate.py:18:87
18 |     return computed(Matrix(64, 512), Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online(8, speculate=True)
   |                                                                                       ^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 64
fix: online(slack=8) without speculate=True""",
    )
