"""4096 tiles to Thread; a block has at most 1024 threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(128, 128, 16)
        .tile(64, 64)
        .to(Block)
        .epilog(memory=RF)
        .tile(1, 1)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .done()
    )


def test_too_many_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "too-many-threads",
        "to(Thread)",
        """\
DecompositionError[too-many-threads]: 4096 tiles for a Thread each are 4096 threads a block, above 1024
  --> test_too_many_threads.py:18:10
18 |         .to(Thread)
   |          ^^^^^^^^^^
at:  MatMul 128x128x16 @ Kernel > tile 64x64 to Block > epilog RF > tile 1x1 to Thread
fix: use larger tiles, or cap the units by to(Thread, units=1024)""",
    )
