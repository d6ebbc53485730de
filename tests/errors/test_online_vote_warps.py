"""A slack where several warps fold a row together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.sum(fi.exp(x - fi.max(x, "n").named("top")), "n")


def wrong() -> Any:
    chain = computed(Matrix(64, 512)).tile(m=1).to(Block).split(n=128).online(slack=8)
    return chain.split("n", ways=2).parallel(Warp).load("x", RF, vector()).done().cuda("sm_80")


def test_online_vote_warps(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-vote",
        "done()",
        """\
DecompositionError[online-vote]: step top cannot keep an old value: several warps fold a row together, and each warp \
votes alone
  --> test_online_vote_warps.py:19:76
19 |     return chain.split("n", ways=2).parallel(Warp).load("x", RF, vector()).done().cuda("sm_80")
   |                                                                            ^^^^^^
at:  Program 64x512 @ Kernel > tile 1 to Block > split n 128 > split n 2 ways to Warp > load x to RF
fix: give rows to warps, tile(...).to(Warp), or online() without slack""",
    )
