"""A split into chunks that are longer than the K in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    chain = matmul(32, 32, 9).tile(32, 32).to(Block).epilog(memory=RF).tile(4, 4).to(Thread)
    return chain.load(A, RF).load(B, RF).split(16)


def test_split_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "split-extent",
        "split(16)",
        """\
DecompositionError[split-extent]: a chunk of 16 along K is larger than the 9 elements left
  --> test_split_registers.py:13:42
13 |     return chain.load(A, RF).load(B, RF).split(16)
   |                                          ^^^^^^^^^
at:  MatMul 32x32x9 @ Kernel > tile 32x32 to Block > epilog RF > tile 4x4 to Thread > load A to RF > load B to RF
fix: use at most 9""",
    )
