"""A refinement that the last link does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).pad(4)


def test_no_such_link(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-link",
        "pad(4)",
        """\
RefinementError[no-such-link]: tile 32x32 to Block has no pad: pad refines load, and the last link is tile 32x32 to Block
  --> test_no_such_link.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).pad(4)
   |                                                      ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: next may come: dependent, done, epilog, layout, load, permute, persistent, prolog, split, staggered, tile, to, unroll""",  # noqa: E501
    )
