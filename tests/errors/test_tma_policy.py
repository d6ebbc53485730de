"""tma() with an unknown policy of the L2 cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul, tma


def wrong() -> Any:
    word: Any = "streaming"
    return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).split(64).load(A, SH, tma(128, l2=word))


def test_tma_policy(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-policy",
        "tma(128, l2=word)",
        """\
DecompositionError[bulk-policy]: tma(128, l2='streaming'): the L2 cache has no such policy
  --> test_tma_policy.py:13:88
13 |     return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).split(64).load(A, SH, tma(128, l2=word))
   |                                                                                        ^^^^^^^^^^^^^^^^^
fix: use evict_first, evict_last, evict_normal, evict_unchanged, or None for no hint""",
    )
