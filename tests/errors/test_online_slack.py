"""A slack that the terms' element type does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import FR, Block
from fireiron.schedules.attention import attention


def wrong() -> Any:
    arrays = (fi.tensor(1, 1, 256, 64, dtype="f16") for _ in range(3))
    chain = attention(*arrays).tile(b=1, h=1, i=64).to(Block).epilog(memory=FR)
    return chain.split(j=64).online(slack=24)


def test_online_slack(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-slack",
        "online(slack=24)",
        """\
DecompositionError[online-slack]: step o rounds its summands to f16, which holds 65504 at most: slack=24 lets \
them grow to 1.67772e+07
  --> test_online_slack.py:16:30
16 |     return chain.split(j=64).online(slack=24)
   |                              ^^^^^^^^^^^^^^^^
at:  Program 1x1x256x256x64x64 @ Kernel > tile 1x1x64 to Block > epilog FR > split j 64
fix: a slack of at most 15""",
    )
