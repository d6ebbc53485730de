"""A program without a load or tile that gives points to threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).done()


def test_program_ownership_unknown(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "ownership-unknown",
        "done()",
        """\
DecompositionError[ownership-unknown]: no register tensor says which thread computes the points of n
  --> test_program_ownership_unknown.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).done()
   |                                                      ^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: load an operand of these dims into registers, load(x, RF, vector()), or tile to Thread""",
    )
