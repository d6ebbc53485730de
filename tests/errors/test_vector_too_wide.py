"""Vectors of 16 bytes for rows of 45 elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul, vector


def product_of(k: int) -> Any:
    return matmul(64, 64, k).tile(32, 32).to(Block).epilog(memory=RF).split(8)


def wrong() -> Any:
    return (
        product_of(45)
        .load(A, SH, vector(16))
        .load(B, SH)
        .tile(16, 16)
        .to(Warp)
        .tile(4, 2)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_vector_too_wide(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "vector-alignment",
        "load(A, SH, vector(16))",
        """\
DecompositionError[vector-alignment]: a vector of 16 bytes is wider than 4 bytes, the most that the other strides of A are aligned to
  --> test_vector_too_wide.py:18:10
18 |         .load(A, SH, vector(16))
   |          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x45 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH
fix: use 4 bytes, or vector() for the widest that fits; declare symbols by symbol(name, multiple_of=n)""",  # noqa: E501
    )
