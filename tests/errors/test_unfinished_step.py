"""A step's chain that does not end in done()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m k", w="k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("mk,kn->mn", x, w, name="s")


def wrong() -> Any:
    return computed(Matrix(32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.split(k=8))


def test_unfinished_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished-step",
        "each(s=lambda s: s.split(k=8))",
        """\
DecompositionError[unfinished-step]: the chain of step s leaves MatMul(16, 16, 8)(GL, GL, RF)(Block)
  --> test_unfinished_step.py:18:80
18 |     return computed(Matrix(32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.split(k=8))
   |                                                                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 32x32x32 @ Kernel > tile 16x16 to Block
fix: end it by .done()""",
    )
