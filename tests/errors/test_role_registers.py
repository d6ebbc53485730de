"""specialize() with more registers than the launch gives the block."""

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
        .specialize(registers=(40, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_role_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-registers",
        "specialize(registers=(40, 240))",
        """\
DecompositionError[role-registers]: 128 threads of 40 registers and 256 of 240 take 66560, above the 64512 that a launch of 384 threads gets of an SM's 65536
  --> test_role_registers.py:20:10
20 |         .specialize(registers=(40, 240))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: give the threads that compute at most 232 registers""",  # noqa: E501
    )
