"""storage_layout() with a layout that puts two elements in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Layout, Thread, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64)
        .tile(32, 32)
        .to(Block)
        .epilog(memory=RF)
        .split(8)
        .load(A, SH)
        .storage_layout(Layout((32, 8), (1, 16)))
        .load(B, SH)
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


def test_storage_not_injective(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "storage-overlap",
        "storage_layout(Layout((32, 8), (1, 16)))",
        """\
DecompositionError[storage-overlap]: storage layout (32,8):(1,16) puts two of the 256 elements of A in one place
  --> test_storage_not_injective.py:19:10
19 |         .storage_layout(Layout((32, 8), (1, 16)))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 8 > load A to SH
fix: give every element a place of its own""",
    )
