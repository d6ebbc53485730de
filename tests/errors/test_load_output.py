"""A load of C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, Block, C, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).load(C, SH)


def test_load_output(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-output",
        "load(C, SH)",
        """\
DecompositionError[load-output]: C is written, not read: it has no load
  --> test_load_output.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).load(C, SH)
   |                                                      ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: accumulate C by epilog(...), and store it there""",
    )
