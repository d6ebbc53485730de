"""Operands that were not brought to registers."""

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
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_no_atom_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(1, 1, 1)(SH, SH, RF)(Thread): nearest: fma.f32 (it takes A in RF, not SH, it takes B in RF, not SH)
  --> test_no_atom_memory.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > load B to SH > tile 4x2 to Thread > split 1 > tile 1x1
fix: load A to RF, load B to RF""",  # noqa: E501
    )
