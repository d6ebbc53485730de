"""inflight=1 where products read A from registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, Warpgroup, matmul, tma


def wrong() -> Any:
    chain = matmul(128, 128, 256, "f16", layout="TN").tile(128, 128).to(Block).persistent().epilog(memory=FR)
    chain = chain.split(64).pipeline(3, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
    chain = chain.tile(64, 128).to(Warpgroup).split(16).unroll().pipeline(4)
    return chain.load(A, FR, lambda move: move.tile(16, 16).to(Warp).done()).done()


def test_register_inflight(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "register-inflight",
        "specialize()",
        """\
DecompositionError[register-inflight]: inflight=1: products read A's registers while the next chunk is loaded there
  --> test_register_inflight.py:13:53
13 |     chain = chain.split(64).pipeline(3, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
   |                                                     ^^^^^^^^^^^^
at:  MatMul 128x128x256 @ Kernel > tile 128x128 to Block > epilog
fix: use pipeline(n) without inflight where A comes from registers""",
    )
