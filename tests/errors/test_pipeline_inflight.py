"""pipeline(inflight=1) without a loading role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warp, cp_async, ldmatrix, matmul


def wrong() -> Any:
    chain = matmul(128, 128, 64, "f16", layout="TN", out="f32").tile(64, 64).to(Block).epilog(memory=FR)
    chain = chain.split(32).pipeline(3).load(A, SH, cp_async(16)).load(B, SH, cp_async(16))
    chain = chain.tile(32, 32).to(Warp).split(16).unroll().pipeline(2, inflight=1)
    return chain.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()


def test_pipeline_inflight(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-inflight",
        "pipeline(2, inflight=1)",
        """\
DecompositionError[pipeline-inflight]: pipeline(2, inflight=1) leaves products in flight, and warps without roles wait for them before they load
  --> test_pipeline_inflight.py:14:60
14 |     chain = chain.tile(32, 32).to(Warp).split(16).unroll().pipeline(2, inflight=1)
   |                                                            ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 128x128x64 @ Kernel > tile 64x64 to Block > epilog > split 32 > load A to SH > load B to SH > tile 32x32 to Warp
fix: drop inflight=, or add .specialize() for loads by tma()""",  # noqa: E501,
    )
