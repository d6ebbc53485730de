"""online() with a sum whose terms have a factor that may be 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.sum(fi.where(x > 0.0, x * fi.max(x, "n").named("top"), 0.0), "n")


def wrong() -> Any:
    return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online()


def test_online_law_zero(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-law",
        "online()",
        """\
DecompositionError[online-law]: step sum needs top in one loop, and top[m] may be 0
  --> test_online_law_zero.py:18:70
18 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online()
   |                                                                      ^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 64
fix: split(n=...) without online(): top is then finished before sum begins""",
    )
