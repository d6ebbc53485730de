"""order() with a step twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, Block
from fireiron.schedules.attention import attention


def wrong() -> Any:
    arrays = (fi.tensor(1, 1, 256, 64, dtype="f16") for _ in range(3))
    chain = attention(*arrays).tile(b=1, h=1, i=64).to(Block).epilog(memory=FR)
    return chain.split(j=64).online().order("s", "o", "s")


def test_order_steps(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "order-steps",
        'order("s", "o", "s")',
        """\
DecompositionError[order-steps]: order() names step s twice
  --> test_order_steps.py:16:39
16 |     return chain.split(j=64).online().order("s", "o", "s")
   |                                       ^^^^^^^^^^^^^^^^^^^^
at:  Program 1x1x256x256x64x64 @ Kernel > tile 1x1x64 to Block > epilog FR > split j 64
fix: name each step once""",
    )
