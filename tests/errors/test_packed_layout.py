"""A layout in which a copy would transpose packed elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, ColMajor, Warp, ldmatrix, matmul, staged


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "i4", layout="NN")
        .tile(64, 64)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .load(B, SH, staged())
        .storage_layout(ColMajor)
        .load(A, SH)
        .tile(32, 32)
        .to(Warp)
        .split(64)
        .unroll()
        .load(A, FR, ldmatrix())
        .load(B, FR, ldmatrix())
        .tile(16, 8)
        .unroll()
        .done()
    )


def test_packed_layout(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "packed-access",
        "load(B, SH, staged())",
        """\
DecompositionError[packed-access]: it moves 1 element at once, and 2 elements of b_rf (i4) share a byte
  --> test_packed_layout.py:18:10
18 |         .load(B, SH, staged())
   |          ^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog > split 64 > load B to SH > load src to RF > own Thread > tile 1x1
fix: move whole bytes, in memory's order on both sides: of products that is layout='TN', K last in both arrays""",  # noqa: E501
    )
