"""A loop over registers that is not unrolled."""

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
        .tile(1, 1)
        .done()
    )


def test_register_loop(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "register-loop",
        "tile(1, 1)",
        """\
DecompositionError[register-loop]: the loop over m indexes the registers of a_rf, but is not unrolled
  --> test_register_loop.py:26:10
26 |         .tile(1, 1)
   |          ^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > load B to SH > tile 4x2 to Thread > split 1 > load A to RF > load B to RF > tile 1x1
fix: refine this link by .unroll()""",  # noqa: E501
    )
