"""stmatrix(trans=True) to a buffer that is contiguous along the columns of the fragment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, stmatrix, through_shared, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR, store=through_shared(stmatrix(trans=True), tma(), panel=(64, 64), at=Warpgroup))
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


def test_stmatrix_trans(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=through_shared(stmatrix(trans=True), tma(), panel=(64, 64), at=Warpgroup))",
        """\
DecompositionError[no-atom]: no atom of a Warp executes Move(16, 16)(FR, SH)(Warp): stmatrix.x4.trans: its rows run along M, along which acc_sh is not contiguous
  --> test_stmatrix_trans.py:17:10
17 |         .epilog(memory=FR, store=through_shared(stmatrix(trans=True), tma(), panel=(64, 64), at=Warpgroup))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x64 > load src to SH > tile 16x64 to Warp > tile 16x16
fix: tile to the atom's shape, or load by conform(), which moves each thread's own elements""",  # noqa: E501
    )
