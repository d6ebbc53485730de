"""A chain for a step that the program does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m k", w="k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("mk,kn->mn", x, w, name="s")


def wrong() -> Any:
    return computed(Matrix(32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(t=lambda t: t.done())


def test_each_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-step",
        "each(t=lambda t: t.done())",
        """\
DecompositionError[each-step]: computed has no step t
  --> test_each_step.py:18:80
18 |     return computed(Matrix(32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(t=lambda t: t.done())
   |                                                                                ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 32x32x32 @ Kernel > tile 16x16 to Block
fix: steps: s""",
    )
