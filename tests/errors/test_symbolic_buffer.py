"""A load to shared memory of a tile whose size is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul, symbol


def wrong() -> Any:
    return (
        matmul(64, 64, symbol("K"))
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .load(A, SH)
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_symbolic_buffer(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "symbolic-buffer",
        "load(A, SH)",
        """\
DecompositionError[symbolic-buffer]: a buffer for a_sh would hold K elements along K: its size is not known
  --> test_symbolic_buffer.py:17:10
17 |         .load(A, SH)
   |          ^^^^^^^^^^^
at:  MatMul 64x64xK @ Kernel > tile 32x32 to Block > epilog
fix: split K above this link""",
    )
