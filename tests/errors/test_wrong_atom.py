"""done() with an atom that does not match the residual spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul
from fireiron.atoms.table import find


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done(find("fma.f64"))
    )


def test_wrong_atom(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        'done(find("fma.f64"))',
        """\
DecompositionError[no-atom]: fma.f64 does not execute MatMul(1, 1, 1)(RF, RF, RF)(Thread): it takes A in f64, not f32; it takes B in f64, not f32; it takes C in f64, not f32
  --> test_wrong_atom.py:25:10
25 |         .done(find("fma.f64"))
   |          ^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > tile 4x2 to Thread > split 1 > load A to RF > load B to RF > tile 1x1
fix: choose an atom of these element types, or convert by load(..., dtype=...)""",  # noqa: E501
    )
