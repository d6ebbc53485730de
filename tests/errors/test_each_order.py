"""A chain for a product step that reads the result of another product transposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Thread


@fi.program(x="m k", w="k n", u="m e")
def computed(x: Any, w: Any, u: Any) -> Any:
    hidden = fi.einsum("mk,kn->mn", x, w, name="s")
    return fi.einsum("mn,me->ne", hidden, u, name="o")


def by_fma(left: str, right: str) -> Any:
    def chain(step: Any) -> Any:
        one = step.split(1).tile(1, 1).to(Thread)
        return (one.load(left, RF) if left else one).load(right, RF).done()

    return chain


def wrong() -> Any:
    made = computed(Matrix(32, 16), Matrix(16, 16), Matrix(32, 16)).tile(e=16).to(Block)
    return made.each(s=by_fma("x", "w"), o=by_fma("", "u"))


def test_each_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-order",
        'each(s=by_fma("x", "w"), o=by_fma("", "u"))',
        """\
DecompositionError[each-order]: step o takes s as n x m, and its registers hold it as m x n
  --> test_each_order.py:28:17
28 |     return made.each(s=by_fma("x", "w"), o=by_fma("", "u"))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 32x16x16x16 @ Kernel > tile 16 to Block
fix: write the sum the other way round, so that s is not transposed, or leave it to threads""",
    )
