"""A split into chunks that are shorter than the K of a quad-pair's product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, A, B, Block, QuadPair, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "f16")
        .tile(32, 32)
        .to(Block)
        .epilog(memory=FR)
        .split(8)
        .tile(16, 16)
        .to(Warp)
        .load(A, FR)
        .load(B, FR)
        .tile(8, 8)
        .to(QuadPair)
        .split(2)
        .unroll()
        .done()
    )


def test_no_atom_quadpair(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(8, 8, 2)(FR, FR, FR)(QuadPair): nearest: mma.m8n8k4.row.col.f32.f16 (its shape is 8x8x4, not 8x8x2); mma.m8n8k4.row.row.f32.f16 (its shape is 8x8x4, not 8x8x2); mma.m8n8k4.col.col.f32.f16 (its shape is 8x8x4, not 8x8x2)
  --> test_no_atom_quadpair.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > tile 16x16 to Warp > load A to FR > load B to FR > tile 8x8 to QuadPair > split 2
fix: split(4)""",  # noqa: E501
    )
