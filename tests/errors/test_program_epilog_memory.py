"""A program's epilog in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import SH, Block, Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(m=1).to(Block).epilog(memory=SH)


def test_program_epilog_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-memory",
        "epilog(memory=SH)",
        """\
DecompositionError[epilog-memory]: results cannot be kept in SH
  --> test_program_epilog_memory.py:18:54
18 |     return total(Matrix(64, 64)).tile(m=1).to(Block).epilog(memory=SH)
   |                                                      ^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 1 to Block
fix: use memory=RF""",
    )
