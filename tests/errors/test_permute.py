"""permute() with a function that maps a unit to a unit that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(24, 8)
        .to(Block)
        .epilog(memory=RF)
        .tile(8, 4)
        .to(Thread)
        .permute(lambda i: i ^ 3)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
    )


def test_permute(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "not-a-permutation",
        "permute(lambda i: i ^ 3)",
        """\
DecompositionError[not-a-permutation]: permute sends 4 to 7: it does not permute the ids of 6 units
  --> test_permute.py:19:10
19 |         .permute(lambda i: i ^ 3)
   |          ^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 24x8 to Block > epilog
fix: map 0..5 one to one onto 0..5""",
    )
