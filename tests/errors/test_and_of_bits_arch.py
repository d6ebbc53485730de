"""A product of bits on an architecture without such an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 512, "b1", layout="TN", product="and", arch="sm_75")
        .tile(64, 64)
        .to(Block)
        .epilog(memory=FR)
        .split(512)
        .load(A, SH)
        .load(B, SH)
        .tile(32, 32)
        .to(Warp)
        .split(128)
        .unroll()
        .load(A, FR)
        .load(B, FR)
        .tile(8, 8)
        .unroll()
        .done()
    )


def test_and_of_bits_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(8, 8, 128)(FR, FR, FR)(Warp): nearest: mma.m8n8k128.i32.b1.and (it needs sm_80, not sm_75); wmma.m8n8k128.row.col.i32.b1.and (it needs sm_80, not sm_75)
  --> test_and_of_bits_arch.py:28:10
28 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x512 @ Kernel > tile 64x64 to Block > epilog > split 512 > load A to SH > load B to SH > tile 32x32 to Warp > split 128 > load A to FR > load B to FR > tile 8x8
fix: compile for sm_80 or later""",  # noqa: E501
    )
