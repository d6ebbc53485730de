"""A product of tf32 on sm_75; it needs sm_80."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "tf32", layout="TN", arch="sm_75")
        .tile(64, 64)
        .to(Block)
        .epilog(memory=FR)
        .split(16)
        .load(A, SH)
        .load(B, SH)
        .tile(32, 32)
        .to(Warp)
        .split(8)
        .unroll()
        .load(A, FR)
        .load(B, FR)
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_tf32_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(16, 8, 8)(FR, FR, FR)(Warp): nearest: mma.m16n8k8.f32.tf32 (it needs sm_80, not sm_75)
  --> test_tf32_arch.py:28:10
28 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog > split 16 > load A to SH > load B to SH > tile 32x32 to Warp > split 8 > load A to FR > load B to FR > tile 16x8
fix: compile for sm_80 or later""",  # noqa: E501
    )
