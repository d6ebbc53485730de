"""A load of a program's output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).load("y", RF)


def test_program_load_output(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-output",
        'load("y", RF)',
        """\
DecompositionError[load-output]: y is written, not read: it has no load
  --> test_program_load_output.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).load("y", RF)
   |                                                      ^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: store it by epilog(store=...)""",
    )
