"""wgmma with a tile of 12 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 12)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 12)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_wgmma_width(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(64, 12, 16)(SH, SH, FR)(Warpgroup): nearest: wgmma.m64n8k16.f32.f16 (its shape is 64x8x16, not 64x12x16)
  --> test_wgmma_width.py:27:10
27 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x12 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x12 to Warpgroup > split 16
fix: tile(64, 8)""",  # noqa: E501
    )
