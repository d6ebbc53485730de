"""slots= without load=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, add, matmul

residual = Matrix(64, 64, name="residual")


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), slots=2)


def test_epilog_load_slots(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(residual), slots=2)",
        """\
DecompositionError[epilog-load]: slots=2 counts copied tiles in shared memory, and load= names no tensor
  --> test_epilog_load_slots.py:14:54
14 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), slots=2)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: drop slots=, or give load={tensor: tma()}""",
    )
