"""skew() before a step that is no later product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, SH, Block, Warpgroup, tma
from fireiron.schedules.attention import attention


def wrong() -> Any:
    arrays = (fi.tensor(1, 1, 256, 64, dtype="f16") for _ in range(3))
    chain = attention(*arrays).tile(b=1, h=1, i=64).to(Block).epilog(memory=FR).load("q", SH, tma())
    chain = chain.split(j=64).online().pipeline(2).specialize(registers=(24, 240))
    chain = chain.skew("s", before="total").load("k", SH, tma()).load("v", SH, tma()).tile(i=64).to(Warpgroup)
    return chain.each(
        s=lambda s: s.split(d=16).unroll().done("wgmma"), o=lambda o: o.split(j=16).unroll().done("wgmma")
    )


def test_skew_before(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "skew-step",
        'skew("s", before="total")',
        """\
DecompositionError[skew-step]: step s cannot be issued a trip ahead: total is no product behind it
  --> test_skew_before.py:17:19
17 |     chain = chain.skew("s", before="total").load("k", SH, tma()).load("v", SH, tma()).tile(i=64).to(Warpgroup)
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 1x1x256x256x64x64 @ Kernel > tile 1x1x64 to Block > load q to SH
fix: before= names a later product: o""",
    )
