"""A product of 8-bit floats on sm_86; it needs sm_89."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "e4m3", layout="TN", arch="sm_86")
        .tile(64, 64)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .load(A, SH)
        .load(B, SH)
        .tile(32, 32)
        .to(Warp)
        .split(32)
        .unroll()
        .load(A, FR)
        .load(B, FR)
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_fp8_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(16, 8, 32)(FR, FR, FR)(Warp): nearest: mma.m16n8k32.f32.e4m3 (it needs sm_89, not sm_86)
  --> test_fp8_arch.py:28:10
28 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog > split 64 > load A to SH > load B to SH > tile 32x32 to Warp > split 32 > load A to FR > load B to FR > tile 16x8
fix: compile for sm_89 or later""",  # noqa: E501
    )
