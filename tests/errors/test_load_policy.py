"""vector() with an unknown policy of the L1 cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, Block, matmul, vector


def wrong() -> Any:
    word: Any = "streaming"
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(4).load(A, RF, vector(16, l1=word))


def test_load_policy(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-policy",
        "vector(16, l1=word)",
        """\
DecompositionError[load-policy]: vector(16, l1='streaming'): the L1 cache has no such policy
  --> test_load_policy.py:13:75
13 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(4).load(A, RF, vector(16, l1=word))
   |                                                                           ^^^^^^^^^^^^^^^^^^^
fix: use evict_first, evict_last, evict_unchanged, no_allocate, or None for no hint""",
    )
