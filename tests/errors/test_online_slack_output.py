"""A slack where the scale is an output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    top = fi.max(x, "n").named("top")
    return top, fi.sum(fi.exp(x - top), "n")


def wrong() -> Any:
    return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online(slack=8)


def test_online_slack_output(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "online-slack",
        "online(slack=8)",
        """\
DecompositionError[online-slack]: step top is an output, and with slack its value stays old
  --> test_online_slack_output.py:19:70
19 |     return computed(Matrix(64, 512)).tile(m=4).to(Block).split(n=64).online(slack=8)
   |                                                                      ^^^^^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 4 to Block > split n 64
fix: online() without slack""",
    )
