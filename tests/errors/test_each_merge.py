"""A chain for a step of which two dims are rows, where a tile cuts the inner one short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, SH, Block, Matrix, Warp, tensor


@fi.program(x="b m k", w="k n")
def computed(x: Any, w: Any) -> Any:
    return fi.einsum("bmk,kn->bmn", x, w, name="s")


def wrong() -> Any:
    chunk = computed(tensor(4, 48, 32), Matrix(32, 32)).tile(b=2, m=24, n=16).to(Block).epilog(memory=FR).split(k=16)
    return chunk.load("x", SH).load("w", SH).tile(m=16).to(Warp).each(s=lambda s: s.done())


def test_each_merge(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-merge",
        "each(s=lambda s: s.done())",
        """\
DecompositionError[each-merge]: b and m of step s together are M of its product, and the tiles of m do not divide its extent
  --> test_each_merge.py:19:66
19 |     return chunk.load("x", SH).load("w", SH).tile(m=16).to(Warp).each(s=lambda s: s.done())
   |                                                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 4x48x32x32 @ Kernel > tile 2x24x16 to Block > split k 16 > load x to SH > load w to SH > tile 16 to Warp
fix: tile m by a number that divides what is above it""",  # noqa: E501
    )
