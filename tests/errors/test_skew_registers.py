"""skew() before a product behind which steps still read the skewed step's sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, SH, Block, Warpgroup, tma
from fireiron.schedules.attention_gradients import of_queries


def wrong() -> Any:
    arrays = [fi.tensor(1, 1, 256, 64, dtype="f16") for _ in range(4)]
    chain = of_queries(*arrays, *(fi.tensor(1, 1, 256) for _ in range(2))).tile(b=1, h=1, i=64).to(Block)
    chain = chain.epilog(memory=FR).load("q", SH, tma()).load("dy", SH, tma()).split(j=64).pipeline(2)
    chain = chain.order("s", "dp").specialize(registers=(24, 240))
    chain = chain.skew("s", before="dp").load("k", SH, tma()).load("v", SH, tma()).tile(i=64).to(Warpgroup)
    first = {n: lambda s, d=d: s.split(**{d: 16}).unroll().done("wgmma") for n, d in (("s", "d"), ("dp", "e"))}
    return chain.each(**first, dq=lambda s: s.split(j=16).unroll().done("wgmma"))


def test_skew_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "skew-step",
        'skew("s", before="dp")',
        """\
DecompositionError[skew-step]: step s cannot be issued a trip ahead: steps from dp on need its registers
  --> test_skew_registers.py:18:19
18 |     chain = chain.skew("s", before="dp").load("k", SH, tma()).load("v", SH, tma()).tile(i=64).to(Warpgroup)
   |                   ^^^^^^^^^^^^^^^^^^^^^^
at:  Program 1x1x256x64x256x64 @ Kernel > tile 1x1x64 to Block > load q to SH > load dy to SH
fix: name a later product: before=; or order() what reads its sums ahead of that""",
    )
