"""wgmma with an operand that is not swizzled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


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
        .load(A, SH, tma(0))
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_wgmma_unswizzled(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "descriptor-layout",
        "done()",
        """\
DecompositionError[descriptor-layout]: wgmma.m64n128k16.f32.f16 (done) takes A in swizzled rows of 128, 64 or 32 bytes, and a_sh is not swizzled so
  --> test_wgmma_unswizzled.py:27:10
27 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup > split 16
fix: load by tma(128), tma(64) or tma(32), which lay the buffer out for it""",  # noqa: E501
    )
