"""stmatrix() to global memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, stmatrix, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR, store=stmatrix())
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_stmatrix_to_global(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=stmatrix())",
        """\
DecompositionError[no-atom]: no atom of a Warp executes Move(16, 16)(FR, GL)(Warp): stmatrix.x4 moves FR to SH; stmatrix.x4.trans moves FR to SH
  --> test_stmatrix_to_global.py:17:10
17 |         .epilog(memory=FR, store=stmatrix())
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > tile 16x128 to Warp > tile 16x16
fix: tile to the atom's shape, or load by conform(), which moves each thread's own elements""",  # noqa: E501
    )
