"""A negative pad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).pad(-1)


def test_negative_pad(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pad",
        "pad(-1)",
        """\
DecompositionError[pad]: a pad of -1 elements
  --> test_negative_pad.py:12:75
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).pad(-1)
   |                                                                           ^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8 > load A to SH
fix: pad by 0 or more""",
    )
