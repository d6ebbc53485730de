"""A product of integers of 64 bits, which no instruction computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "i64").tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll()
        .done()
    )  # fmt: skip


def test_no_atom_of_wide_integers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(1, 1, 1)(RF, RF, RF)(Thread): nearest: fma.f64 (it takes A in f64, not i64, it takes B in f64, not i64, it takes C in f64, not i64); fma.f32 (it takes A in f32, not i64, it takes B in f32, not i64, it takes C in f32, not i64); fma.f16 (it takes A in f16, not i64, it takes B in f16, not i64, it takes C in f16, not i64)
  --> test_no_atom_of_wide_integers.py:15:10
15 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH > load B to SH > tile 4x4 to Thread > split 1 > load A to RF > load B to RF > tile 1x1
fix: state the product in f64, f32 or f16, or convert by load(..., dtype=...)""",  # noqa: E501
    )
