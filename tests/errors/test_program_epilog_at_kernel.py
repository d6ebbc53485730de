"""A program's epilog above the tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).epilog()


def test_program_epilog_at_kernel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-level",
        "epilog()",
        """\
DecompositionError[load-level]: no block owns results at level Kernel
  --> test_program_epilog_at_kernel.py:18:34
18 |     return total(Matrix(64, 64)).epilog()
   |                                  ^^^^^^^^
at:  Program 64x64 @ Kernel
fix: tile to Block above epilog""",
    )
