"""Vectors of 16 bytes from a slice that starts 2 bytes behind a multiple of 16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from fireiron import RF, SH, A, B, Block, ColMajor, MatMul, Matrix, Thread, Warp, vector


def product_of(start: int) -> Any:
    a = attrs.evolve(Matrix(64, 64, "f16", name="A"), start=start)
    b, c = Matrix(64, 64, "f16", order=ColMajor, name="B"), Matrix(64, 64, "f32", name="C")
    return MatMul(a, b, c).tile(32, 32).to(Block).epilog(memory=RF).split(8)


def wrong() -> Any:
    return (
        product_of(1)
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


def test_vector_past_start(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "vector-alignment",
        "load(A, SH, vector(16))",
        """\
DecompositionError[vector-alignment]: a vector of 16 bytes is wider than 2 bytes, the most that the start of A is aligned to
  --> test_vector_past_start.py:22:10
22 |         .load(A, SH, vector(16))
   |          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > load A to SH
fix: use 2 bytes, or vector() for the widest that fits; declare symbols by symbol(name, multiple_of=n)""",  # noqa: E501
    )
