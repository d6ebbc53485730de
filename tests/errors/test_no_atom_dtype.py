"""A shape that no instruction of the element type has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, ldmatrix, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "e4m3", layout="TN")
        .tile(64, 64)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .load(A, SH)
        .load(B, SH)
        .tile(32, 32)
        .to(Warp)
        .load(A, FR, ldmatrix())
        .load(B, FR, ldmatrix())
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_no_atom_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(16, 8, 64)(FR, FR, FR)(Warp): nearest: mma.m16n8k32.f32.e4m3 (its shape is 16x8x32, not 16x8x64); mma.m16n8k16.f32.e4m3 (its shape is 16x8x16, not 16x8x64)
  --> test_no_atom_dtype.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog > split 64 > load A to SH > load B to SH > tile 32x32 to Warp > load A to FR > load B to FR > tile 16x8
fix: split(32)""",  # noqa: E501
    )
