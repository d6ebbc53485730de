"""parallel(Warp) of 40 chunks: 1280 threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Warp, matmul


def wrong() -> Any:
    return matmul(64, 64, 640).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp)


def test_parallel_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "too-many-threads",
        "parallel(Warp)",
        """\
DecompositionError[too-many-threads]: 40 chunks for a Warp each are 1280 threads a block, above 1024
  --> test_parallel_threads.py:12:83
12 |     return matmul(64, 64, 640).tile(32, 32).to(Block).epilog(memory=RF).split(16).parallel(Warp)
   |                                                                                   ^^^^^^^^^^^^^^
at:  MatMul 64x64x640 @ Kernel > tile 32x32 to Block > epilog RF > split 16
fix: use longer chunks""",
    )
