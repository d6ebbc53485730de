"""An accumulator in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=SH)


def test_epilog_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-memory",
        "epilog(memory=SH)",
        """\
DecompositionError[epilog-memory]: C cannot accumulate in SH
  --> test_epilog_memory.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=SH)
   |                                                      ^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use memory=RF""",
    )
