"""A chain for a step of which two dims are rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, tensor


@fi.program(x="b m k", w="k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("bmk,kn->bmn", x, w, name="s")


def wrong() -> Any:
    return computed(tensor(4, 32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.done())


def test_each_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-dims",
        "each(s=lambda s: s.done())",
        """\
DecompositionError[each-dims]: b and m of step s are both M of a MatMul, and neither is 1 here
  --> test_each_dims.py:18:83
18 |     return computed(tensor(4, 32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.done())
   |                                                                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 4x32x32x32 @ Kernel > tile 16x16 to Block
fix: cut one of them to 1 above each(...): tile(b=1), or split where it is folded""",
    )
