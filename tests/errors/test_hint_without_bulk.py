"""A hint to the L2 cache for cp.async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, MoveChain, Thread, matmul


def by_hand(move: MoveChain) -> MoveChain:
    return move.vectors(16).to(Thread).unroll().done("cp.async.16B.evict_first")


def wrong() -> Any:
    return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).split(64).load(A, SH, by_hand)


def test_hint_without_bulk(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-atom",
        'done("cp.async.16B.evict_first")',
        """\
DecompositionError[unknown-atom]: no atom's name starts with 'cp.async.16B.evict_first'
  --> test_hint_without_bulk.py:12:49
12 |     return move.vectors(16).to(Thread).unroll().done("cp.async.16B.evict_first")
   |                                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: only bulk copies take hints to the L2 cache: tma(l2=...)""",
    )
