"""unroll(0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(512, 512, 512).tile(128, 128).to(Block).split(32).unroll(0)


def test_unroll_chunks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unroll-chunks",
        "unroll(0)",
        """\
DecompositionError[unroll-chunks]: 0 chunks cannot stand together in a trip of a loop
  --> test_unroll_chunks.py:12:69
12 |     return matmul(512, 512, 512).tile(128, 128).to(Block).split(32).unroll(0)
   |                                                                     ^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > split 32
fix: use 1 or more, or unroll() for no loop at all""",
    )
