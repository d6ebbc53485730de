"""A chain for a product step whose factors share a dim of more than one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, tensor


@fi.program(x="b m k", w="b k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("bmk,bkn->bmn", x, w, name="s")


def wrong() -> Any:
    return computed(tensor(4, 32, 32), tensor(4, 32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.done())


def test_each_dims_of_both(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-dims",
        "each(s=lambda s: s.done())",
        """\
DecompositionError[each-dims]: both factors of step s have the dim b, and a tile here is 4 wide along it
  --> test_each_dims_of_both.py:18:86
18 |     return computed(tensor(4, 32, 32), tensor(4, 32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.done())
   |                                                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 4x32x32x32 @ Kernel > tile 16x16 to Block
fix: tile(b=1) above each(...): an atom multiplies two matrices""",
    )
