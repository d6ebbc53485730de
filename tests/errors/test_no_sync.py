"""no_sync() where a barrier is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH)
        .no_sync()
        .load(B, SH)
        .no_sync()
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_no_sync(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-sync-needed",
        "no_sync()",
        """\
DecompositionError[no-sync-needed]: no_sync() would drop the only barrier between writing a_sh and reading it
  --> test_no_sync.py:19:10
19 |         .no_sync()
   |          ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > load B to SH > tile 4x2 to Thread
fix: drop no_sync(); barriers that another load needs anyway are never doubled""",  # noqa: E501
    )
