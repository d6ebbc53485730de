"""wgmma on sm_100; only sm_90 has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN", arch="sm_100a")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_wgmma_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(64, 128, 16)(SH, SH, FR)(Warpgroup): nearest: wgmma.m64n128k16.f32.f16 (it is for sm_90 alone, not sm_100)
  --> test_wgmma_arch.py:27:10
27 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 16
fix: compile for sm_90a""",  # noqa: E501
    )
