"""ldmatrix without .trans for an operand whose contiguous dimension is not K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, ldmatrix, matmul


def wrong() -> Any:
    def plain(move: Any) -> Any:
        return move.tile(16, 16).unroll().done("ldmatrix.x4.A.b16")

    return (
        matmul(64, 64, 64, "f16", layout="NN")
        .tile(32, 32)
        .to(Block)
        .epilog(memory=FR)
        .split(32)
        .load(A, SH)
        .pad(8)
        .load(B, SH)
        .pad(8)
        .tile(16, 16)
        .to(Warp)
        .split(16)
        .unroll()
        .load(A, FR, ldmatrix())
        .load(B, FR, plain)
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_fragment_agreement(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fragment-agreement",
        'done("ldmatrix.x4.A.b16")',
        """\
DecompositionError[fragment-agreement]: ldmatrix.x4.A.b16 and mma.m16n8k16.f32.f16 (done) do not agree about b_fr: ldmatrix.x4.A.b16 lets thread 0 touch element (0, 1) of b_fr, which mma.m16n8k16.f32.f16 (done) gives to another thread
  --> test_fragment_agreement.py:13:43
13 |         return move.tile(16, 16).unroll().done("ldmatrix.x4.A.b16")
   |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^
  --> test_fragment_agreement.py:33:10
33 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 32 > load A to SH > load B to SH > tile 16x16 to Warp > split 16 > load A to FR > load B to FR > tile 16x16
fix: load by conform(), which always agrees; by the .trans form; or through movmatrix()""",  # noqa: E501
    )
