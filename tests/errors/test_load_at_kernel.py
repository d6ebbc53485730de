"""A load above the tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).load(A, SH)


def test_load_at_kernel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-level",
        "load(A, SH)",
        """\
DecompositionError[load-level]: cannot load A at level Kernel: no block owns the buffer
  --> test_load_at_kernel.py:12:31
12 |     return matmul(64, 64, 64).load(A, SH)
   |                               ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: tile to Block above this link""",
    )
