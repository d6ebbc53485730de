"""A chain for a product step whose rows are two dims, where tiles do not divide the inner one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, SH, A, B, Block, Matrix, Warp, conform, tensor


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


def cut_below() -> Any:
    chunk = computed(tensor(4, 33, 32, dtype="f16"), Matrix(32, 32, "f16")).tile(b=2, m=33, n=16).to(Block)
    chunk = chunk.epilog(memory=FR).split(k=16).load("x", SH).load("w", SH)
    return chunk.each(s=fragments).cuda()


def fragments(step: Any) -> Any:
    return step.tile(16, 16).to(Warp).load(A, FR, conform()).load(B, FR, conform()).tile(16, 8).unroll().done()


def test_each_merge_below(refused: Callable[..., Any]) -> None:
    refused(
        cut_below,
        "each-merge",
        "each(s=fragments)",
        """\
DecompositionError[each-merge]: b and m together are M of a product, and the tiles in its chain do not divide their 66 elements
  --> test_each_merge.py:40:18
40 |     return chunk.each(s=fragments).cuda()
   |                  ^^^^^^^^^^^^^^^^^
at:  Program 4x33x32x32 @ Kernel > tile 2x33x16 to Block > split k 16 > load x to SH > load w to SH
fix: choose tiles of these dims, above each(...), that hold a multiple of the atom's elements""",  # noqa: E501
    )
