"""A split of a dim that the step keeps, in a step's chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m k", w="k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("mk,kn->mn", x, w, name="s")


def wrong() -> Any:
    made = computed(Matrix(32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block)
    return made.each(s=lambda s: s.split(m=8).done())


def test_each_split(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-arguments",
        "split(m=8)",
        """\
DecompositionError[split-arguments]: a split of MatMul 16x16x32 cuts k, the dim that the step folds
  --> test_each_split.py:19:36
19 |     return made.each(s=lambda s: s.split(m=8).done())
   |                                    ^^^^^^^^^^
at:  Program 32x32x32 @ Kernel > tile 16x16 to Block > s
fix: split(k=16)""",
    )
