"""wgmma of integers with a tile of 56 columns, which only floats have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "i8", layout="TN")
        .tile(128, 56)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(128)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 56)
        .to(Warpgroup)
        .split(32)
        .unroll()
        .done()
    )


def test_wgmma_width_of_integers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(64, 56, 32)(SH, SH, FR)(Warpgroup): nearest: wgmma.m64n48k32.i32.i8 (its shape is 64x48x32, not 64x56x32)
  --> test_wgmma_width_of_integers.py:27:10
27 |         .done()
   |          ^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x56 to Block > epilog > split 128 > load A to SH > load B to SH > tile 64x56 to Warpgroup > split 32
fix: tile(64, 48)""",  # noqa: E501
    )
