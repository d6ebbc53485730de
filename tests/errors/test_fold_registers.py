"""A fold whose values lie at irregular places in the registers of each thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Warp, tensor, vector


@fi.program(x="a b c")
def total(x: Any) -> Any:
    return fi.sum(x, "b c")


def wrong() -> Any:
    x = tensor(6, 3, 256, dtype="bf16")
    shared = total(x, out="f32").tile(a=6).to(Block).split("c", ways=4).parallel(Warp)
    return shared.load("x", RF, vector(16)).done()


def test_fold_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-registers",
        "done()",
        """\
DecompositionError[fold-registers]: a thread's registers go through a, b irregularly, and sum folds b
  --> test_fold_registers.py:20:45
20 |     return shared.load("x", RF, vector(16)).done()
   |                                             ^^^^^^
at:  Program 6x3x256 @ Kernel > tile 6 to Block > split c 4 ways to Warp > load x to RF
fix: load tiles whose vectors divide evenly among the threads""",
    )
