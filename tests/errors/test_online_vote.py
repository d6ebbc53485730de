"""A slack where each thread folds a row alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Thread


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.sum(fi.exp(x - fi.max(x, "n").named("top")), "n")


def wrong() -> Any:
    chain = computed(Matrix(64, 512)).tile(m=32).to(Block).tile(m=1).to(Thread).split(n=64).online(slack=8)
    return chain.done().cuda("sm_80")


def test_online_vote(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-vote",
        "done()",
        """\
DecompositionError[online-vote]: step top cannot keep an old value: a thread alone computes it, and a warp votes
  --> test_online_vote.py:19:18
19 |     return chain.done().cuda("sm_80")
   |                  ^^^^^^
at:  Program 64x512 @ Kernel > tile 32 to Block > tile 1 to Thread > split n 64
fix: online() without slack""",
    )
