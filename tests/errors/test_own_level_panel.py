"""own(Warp) below a tile of the register tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, matmul, vector


def panels(move: Any) -> Any:
    return vector()(move.tile(32, 64).unroll().own(Warp))


def wrong() -> Any:
    chain = matmul(256, 256, 256, "f16").tile(64, 64).to(Block).epilog(memory=FR, store=panels).split(32)
    chain = chain.load(A, SH).load(B, SH).tile(32, 32).to(Warp).split(16).unroll()
    return chain.load(A, FR).load(B, FR).tile(16, 8).unroll().done()


def test_own_level_panel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "own-level",
        "own(Warp)",
        """\
DecompositionError[own-level]: own(Warp) gives each unit what it holds of all of acc, 64x64, and the tile above takes 32x64 of it
  --> test_own_level_panel.py:12:48
12 |     return vector()(move.tile(32, 64).unroll().own(Warp))
   |                                                ^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel > tile 64x64 to Block > epilog > store > tile 32x64
fix: own(Warp) first, then tile what each unit holds""",  # noqa: E501
    )
