"""wgmma with an 8-bit operand whose K is not contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "e4m3", layout="NN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(128)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(32)
        .unroll()
        .done()
    )


def test_wgmma_mn_major(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "descriptor-layout",
        "done()",
        """\
DecompositionError[descriptor-layout]: wgmma.m64n128k32.f32.e4m3 (done) takes B in rows of 128 bytes of K one after another, and b_sh has strides 128 and 1
  --> test_wgmma_mn_major.py:27:10
27 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 128 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 32
fix: store the operand with K contiguous: other orders need 16-bit elements""",  # noqa: E501
    )
