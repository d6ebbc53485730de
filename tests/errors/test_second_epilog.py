"""A product with two epilogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul, relu


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(relu, memory=RF).epilog(relu, memory=RF)


def test_second_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "second-epilog",
        "epilog(relu, memory=RF)",
        """\
DecompositionError[second-epilog]: C accumulates in RF already
  --> test_second_epilog.py:12:78
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(relu, memory=RF).epilog(relu, memory=RF)
   |                                                                              ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF
fix: give all ops to one epilog(...)""",
    )
