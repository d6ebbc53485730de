"""pad() on a load to registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, Block, Thread, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).tile(4, 4).to(Thread).load(A, RF).pad(4)


def test_register_storage(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "register-storage",
        "pad(4)",
        """\
DecompositionError[register-storage]: pad places a buffer in memory, and RF has no addresses
  --> test_register_storage.py:12:88
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).tile(4, 4).to(Thread).load(A, RF).pad(4)
   |                                                                                        ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > tile 4x4 to Thread > load A to RF
fix: drop it""",
    )
