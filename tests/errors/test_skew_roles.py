"""skew() without a loading role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, Block
from fireiron.schedules.attention import attention


def wrong() -> Any:
    arrays = (fi.tensor(1, 1, 256, 64, dtype="f16") for _ in range(3))
    return attention(*arrays).tile(b=1, h=1, i=64).to(Block).epilog(memory=FR).split(j=64).online().skew("s")


def test_skew_roles(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "skew-roles",
        'skew("s")',
        """\
DecompositionError[skew-roles]: skew('s') needs warps that only load, and here each warp loads and computes in turn
  --> test_skew_roles.py:15:101
15 |     return attention(*arrays).tile(b=1, h=1, i=64).to(Block).epilog(memory=FR).split(j=64).online().skew("s")
   |                                                                                                     ^^^^^^^^^
at:  Program 1x1x256x256x64x64 @ Kernel > tile 1x1x64 to Block > epilog FR > split j 64
fix: split(j=...).pipeline(2).specialize().skew("s")""",
    )
