"""A chain for a step that is no product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.max(x, "n") * 2.0


def wrong() -> Any:
    return computed(Matrix(32, 32)).tile(m=16).to(Block).each(largest=lambda s: s.done())


def test_each_product(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-product",
        "each(largest=lambda s: s.done())",
        """\
DecompositionError[each-product]: step largest does not sum products of two factors that each have a dim of their own
  --> test_each_product.py:18:58
18 |     return computed(Matrix(32, 32)).tile(m=16).to(Block).each(largest=lambda s: s.done())
   |                                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 32x32 @ Kernel > tile 16 to Block
fix: leave it out of each(...): the threads that hold its operands then compute it""",
    )
