"""tma() of a box of 6 dimensions; a tensor map has at most 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, tensor, tma
from fireiron.schedules import conv


def wrong() -> Any:
    x, f = tensor(1, 4, 5, 6, 2, 16, dtype="f16"), tensor(2, 64, 3, 3, 3, 16, dtype="f16", name="f")
    chain = conv.conv3d_grouped(x, f).tile(n=1, o=1, p=2, q=4, g=1, k=64).to(Block).epilog(memory=FR)
    chain = chain.split(t=1, r=1, s=1, c=16).pipeline(3).specialize()
    return chain.load("x", SH, tma(32))


def test_tma_rank(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-rank",
        'load("x", SH, tma(32))',
        """\
DecompositionError[bulk-rank]: tma() copies boxes of at most 5 dimensions, and x has 6
  --> test_tma_rank.py:16:18
16 |     return chain.load("x", SH, tma(32))
   |                  ^^^^^^^^^^^^^^^^^^^^^^
at:  Program 1x2x3x4x2x64x3x3x3x16 @ Kernel > tile 1x1x2x4x1x64 to Block > epilog FR > split t 1, r 1, s 1, c 16
fix: load by cp_async(), or describe dimensions that lie together in memory as one""",
    )
