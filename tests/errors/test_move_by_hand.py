"""by_hand() with a body that does not say what each thread moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, by_hand, matmul


def halves(src: Any, dst: Any, warp: Any) -> Any:
    return src.tile(8, 8), dst, warp


def wrong() -> Any:
    chain = matmul(64, 64, 64, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR).split(16)
    return chain.load(A, SH).load(B, SH).tile(16, 16).to(Warp).load(A, FR, by_hand(halves))


def test_move_by_hand(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "move-by-hand",
        "load(A, FR, by_hand(halves))",
        """\
DecompositionError[move-by-hand]: by_hand's body gives [2,2:8,128].[8,8:1,16], [8:1], [32:1], which does not say what each thread moves
  --> test_move_by_hand.py:17:64
17 |     return chain.load(A, SH).load(B, SH).tile(16, 16).to(Warp).load(A, FR, by_hand(halves))
   |                                                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog FR > split 16 > load A to SH > load B to SH > tile 16x16 to Warp
fix: return the row that each thread names, the registers tiled by groups, and the groups of threads""",  # noqa: E501
    )
