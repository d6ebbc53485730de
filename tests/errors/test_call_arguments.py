"""A program's tile with a number instead of named dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(tensor(64, 64, name="x")).tile(8)


def test_call_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "call-arguments",
        "tile(8)",
        """\
DecompositionError[call-arguments]: tile: too many positional arguments
  --> test_call_arguments.py:13:46
13 |     return softmax(tensor(64, 64, name="x")).tile(8)
   |                                              ^^^^^^^
at:  Program 64x64 @ Kernel
fix: call tile(**sizes)""",
    )
