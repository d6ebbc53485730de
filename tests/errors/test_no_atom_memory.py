"""Operands of a warp's instruction that were not loaded to registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "f16", layout="TN")
        .tile(32, 32)
        .to(Block)
        .epilog(memory=FR)
        .split(16)
        .load(A, SH)
        .load(B, SH)
        .tile(16, 8)
        .to(Warp)
        .done()
    )


def test_no_atom_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(16, 8, 16)(SH, SH, FR)(Warp): nearest: mma.m16n8k16.f32.f16 (it takes A in FR, not SH, it takes B in FR, not SH); wgmma.m64n8k16.f32.f16 (its shape is 64x8x16, not 16x8x16, a Warpgroup executes it, not a Warp)
  --> test_no_atom_memory.py:22:10
22 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 16 > load A to SH > load B to SH > tile 16x8 to Warp
fix: load A to FR, load B to FR""",  # noqa: E501
    )
