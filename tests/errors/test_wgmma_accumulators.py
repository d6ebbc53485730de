"""Accumulators that exceed the register budget of a role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(256, 256)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(2)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(128, 256)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .tile(64, 256)
        .unroll()
        .done()
        .check("sm_90a")
    )


def test_wgmma_accumulators(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "registers",
        "to(Warpgroup)",
        """\
CheckError[registers]: a thread's tensors take 257 registers at once, its role math has 240: acc 256, C_vec 1
  --> test_wgmma_accumulators.py:24:10
24 |         .to(Warpgroup)
   |          ^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 256x256 to Block > epilog > split 64 > load A to SH > load B to SH > tile 128x256 to Warpgroup
fix: give each thread a smaller tile, or its role more registers""",  # noqa: E501
    )
