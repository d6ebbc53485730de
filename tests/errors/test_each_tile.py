"""A tile of the dim that the step folds, in a step's chain."""

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
    return made.each(s=lambda s: s.tile(m=16, k=8).done())


def test_each_tile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-arguments",
        "tile(m=16, k=8)",
        """\
DecompositionError[tile-arguments]: k is folded: MatMul 16x16x32
  --> test_each_tile.py:19:36
19 |     return made.each(s=lambda s: s.tile(m=16, k=8).done())
   |                                    ^^^^^^^^^^^^^^^
at:  Program 32x32x32 @ Kernel > tile 16x16 to Block > s
fix: split(k=...)""",
    )
