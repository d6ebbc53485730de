"""online(slack=0, speculate=True)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, Block
from fireiron.schedules.attention import attention


def wrong() -> Any:
    arrays = (fi.tensor(1, 1, 256, 64, dtype="f16") for _ in range(3))
    chain = attention(*arrays).tile(b=1, h=1, i=64).to(Block).epilog(memory=FR)
    return chain.split(j=64).online(speculate=True)


def test_online_slack_range(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-slack",
        "online(speculate=True)",
        """\
DecompositionError[online-slack]: slack=0 is out of range: a slack is 0 to 64 powers of 2, and speculation \
needs one above 0
  --> test_online_slack_range.py:16:30
16 |     return chain.split(j=64).online(speculate=True)
   |                              ^^^^^^^^^^^^^^^^^^^^^^
at:  Program 1x1x256x256x64x64 @ Kernel > tile 1x1x64 to Block > epilog FR > split j 64
fix: online(slack=24) where summands are bf16 or f32, slack=10 where they are f16""",
    )
