"""online() with a sum whose terms do not split into factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.sum(fi.relu(x - fi.max(x, "n").named("top")), "n")


def wrong() -> Any:
    return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online()


def test_online_law(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-law",
        "online()",
        """\
DecompositionError[online-law]: step sum needs top in one loop, and max(x[m, n] - top[m], 0) has no factor of it
  --> test_online_law.py:18:70
18 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online()
   |                                                                      ^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 64
fix: split(n=...) without online(): top is then finished before sum begins""",
    )
