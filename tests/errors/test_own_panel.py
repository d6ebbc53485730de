"""A store whose panels are strided parts of the register tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Strided, Warp, conform, matmul


def panels(move: Any) -> Any:
    return conform()(move.tile(Strided((16, 32), (64, 64))).unroll())


def wrong() -> Any:
    chain = matmul(256, 256, 256, "f16").tile(64, 64).to(Block).epilog(memory=FR, store=panels).split(32)
    chain = chain.load(A, SH).load(B, SH).tile(32, 32).to(Warp).split(16).unroll()
    return chain.load(A, FR).load(B, FR).tile(16, 8).unroll().done()


def test_own_panel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "own-panel",
        "conform()(move.tile(Strided((16, 32), (64, 64))).unroll())",
        """\
DecompositionError[own-panel]: 32 of 64 elements of acc along M, in chunks, are no panel that a thread's own elements can be cut to
  --> test_own_panel.py:12:12
12 |     return conform()(move.tile(Strided((16, 32), (64, 64))).unroll())
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel > tile 64x64 to Block > epilog > store > tile 16 every 32x64 every 64
fix: tile(rows, cols) above own(Thread), no Strided(...)""",  # noqa: E501
    )
