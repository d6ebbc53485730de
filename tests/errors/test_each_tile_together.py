"""A tile of one of two dims that are the rows of a product together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, tensor


@fi.program(x="b m k", w="k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("bmk,kn->bmn", x, w, name="s")


def wrong() -> Any:
    return computed(tensor(4, 32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.tile(m=16))


def test_each_tile_together(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-arguments",
        "tile(m=16)",
        """\
DecompositionError[tile-arguments]: b, m are M of MatMul 64x16x32 together
  --> test_each_tile_together.py:18:102
18 |     return computed(tensor(4, 32, 32), Matrix(32, 32)).tile(m=16, n=16).to(Block).each(s=lambda s: s.tile(m=16))
   |                                                                                                      ^^^^^^^^^^
at:  Program 4x32x32x32 @ Kernel > tile 16x16 to Block > s
fix: tile(16, 8): rows and columns""",
    )
