"""A swizzle of the author in a buffer that wgmma reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Swizzle, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .swizzle(Swizzle(2, 3, 3))
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_by_hand(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "descriptor-layout",
        "done()",
        """\
DecompositionError[descriptor-layout]: wgmma.m64n128k16.f32.f16 (done) takes A in rows of 64 bytes one after another, and a_sh has strides 64 and 1
  --> test_tma_by_hand.py:28:10
28 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 16
fix: load by tma(128), tma(64) or tma(32), which lay the buffer out for it""",  # noqa: E501
    )
