"""vectors(12); no instruction moves 12 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul, vector


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, vector(12))


def test_vector_bytes(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "vector-bytes",
        "load(A, SH, vector(12))",
        """\
DecompositionError[vector-bytes]: no instruction moves 12 bytes
  --> test_vector_bytes.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, vector(12))
   |                                                               ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: use 1, 2, 4, 8 or 16""",
    )
