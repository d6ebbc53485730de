"""A specialised split with more slots than shared memory holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN", arch="sm_90a")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(9)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_ring_shared_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "load(B, SH, tma())",
        """\
DecompositionError[shared-memory]: 9 slots of A 16 KiB and B 16 KiB need 288 KiB of shared memory, and a block of sm_90a has 227 KiB
  --> test_ring_shared_memory.py:22:10
22 |         .load(B, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64 > load A to SH > load B to SH
fix: use pipeline(7), smaller tiles or shorter chunks""",  # noqa: E501
    )
