"""A program with two epilogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).epilog().epilog()


def test_program_second_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "second-epilog",
        "epilog()",
        """\
DecompositionError[second-epilog]: an epilog stands above already
  --> test_program_second_epilog.py:18:63
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).epilog().epilog()
   |                                                               ^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block > epilog RF
fix: write one epilog(...)""",
    )
