"""A load to global memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import GL, A, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).load(A, GL)


def test_load_to_global(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-memory",
        "load(A, GL)",
        """\
DecompositionError[load-memory]: cannot load A to GL
  --> test_load_to_global.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).load(A, GL)
   |                                                      ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: load to SH, FR or RF""",
    )
