"""A load of a fold's result to shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import SH, Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return x - fi.max(x, "n").named("top")


def wrong() -> Any:
    return computed(Matrix(64, 64)).tile(m=4).to(Block).load("top", SH)


def test_load_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-step",
        'load("top", SH)',
        """\
DecompositionError[load-step]: step top folds n, and its value lies in registers
  --> test_load_step.py:18:57
18 |     return computed(Matrix(64, 64)).tile(m=4).to(Block).load("top", SH)
   |                                                         ^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 4 to Block
fix: name what is computed of it, (...).named("p"), and load that""",
    )
