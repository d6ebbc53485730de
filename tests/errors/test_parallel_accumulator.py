"""parallel(Warp) without an epilog above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Warp, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(16).parallel(Warp)


def test_parallel_accumulator(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-accumulator",
        "parallel(Warp)",
        """\
DecompositionError[parallel-accumulator]: the Warps would each add to C in GL: each needs registers for its own sum
  --> test_parallel_accumulator.py:12:64
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(16).parallel(Warp)
   |                                                                ^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 16
fix: accumulate by .epilog(...) above this split""",
    )
