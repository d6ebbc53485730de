"""conform() on a Move between memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, conform, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH, conform())
        .load(B, SH)
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


def test_ownership_unknown(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "ownership-unknown",
        "load(A, SH, conform())",
        """\
DecompositionError[ownership-unknown]: no side of Move(32, 8)(GL, SH)(Block) is a register tensor whose owner is known
  --> test_ownership_unknown.py:18:10
18 |         .load(A, SH, conform())
   |          ^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH
fix: give the Move a schedule of its own, for example vector()""",
    )
