"""A residual spec that no instruction executes."""

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
        .load(B, SH)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(4, 2)
        .unroll()
        .done()
    )


def test_no_atom(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(4, 2, 1)(RF, RF, RF)(Thread): nearest: fma.f32 (its shape is 1x1x1, not 4x2x1)
  --> test_no_atom.py:28:10
28 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > load B to SH > tile 4x2 to Thread > split 1 > load A to RF > load B to RF > tile 4x2
fix: tile(1, 1)""",  # noqa: E501
    )
