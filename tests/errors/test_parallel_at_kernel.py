"""parallel(Block) above the tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).split(16).parallel(Block)


def test_parallel_at_kernel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-level",
        "parallel(Block)",
        """\
DecompositionError[parallel-level]: units of Block cannot take chunks of MatMul 64x64x64, which is at level Kernel
  --> test_parallel_at_kernel.py:12:41
12 |     return matmul(64, 64, 64).split(16).parallel(Block)
   |                                         ^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > split 16
fix: give chunks to Block, Warpgroup, Warp, Thread or a Group of them inside the present level, below \
tile(...).to(Block)""",
    )
