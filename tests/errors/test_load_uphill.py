"""A load from registers to shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, Block, Thread, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).tile(4, 4).to(Thread).load(A, RF).load(A, SH)


def test_load_uphill(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-uphill",
        "load(A, SH)",
        """\
DecompositionError[load-uphill]: A lies in RF, nearer to the atoms than SH
  --> test_load_uphill.py:12:88
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).tile(4, 4).to(Thread).load(A, RF).load(A, SH)
   |                                                                                        ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > tile 4x4 to Thread > load A to RF
fix: load to SH before RF""",
    )
