"""promote() with inflight=1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    chain = matmul(128, 128, 512, "e4m3", layout="TN").tile(128, 128).to(Block).persistent().epilog(memory=FR)
    chain = chain.split(128).promote().pipeline(3, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(64, 128).to(Warpgroup).split(32).unroll().done()


def test_promote_inflight(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "promote-inflight",
        "specialize()",
        """\
DecompositionError[promote-inflight]: inflight=1: products would run on while the sums of their chunk are added
  --> test_promote_inflight.py:13:64
13 |     chain = chain.split(128).promote().pipeline(3, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
   |                                                                ^^^^^^^^^^^^
at:  MatMul 128x128x512 @ Kernel > tile 128x128 to Block > epilog
fix: use pipeline(n) without inflight beside promote(): other units' products run meanwhile""",
    )
