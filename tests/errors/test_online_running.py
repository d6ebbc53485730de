"""online() with a step that keeps running results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.cumsum(x, "n")


def wrong() -> Any:
    return sums(Matrix(8, 512)).tile(m=1).to(Block).split(n=64).online()


def test_online_running(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-law",
        "online()",
        """\
DecompositionError[online-law]: step cumsum keeps running results along n, which no later value corrects
  --> test_online_running.py:18:65
18 |     return sums(Matrix(8, 512)).tile(m=1).to(Block).split(n=64).online()
   |                                                                 ^^^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block > split n 64
fix: leave .online() out: a plain loop over n carries running results""",
    )
