"""stream_k() where the first split has no loading role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, RowMajor, Warpgroup, matmul, stream_k, tma


def wrong() -> Any:
    return (
        matmul(256, 256, 256, "bf16", layout="TN")
        .tile(128, 128).to(Block).persistent(RowMajor, share=stream_k())
        .epilog(memory=FR)
        .split(64).load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def test_stream_split(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "stream-split",
        "persistent(RowMajor, share=stream_k())",
        """\
DecompositionError[stream-split]: stream_k(132) shares out the chunks of a specialised split, and the first split has \
no loads in warps of their own
  --> test_stream_split.py:14:35
14 |         .tile(128, 128).to(Block).persistent(RowMajor, share=stream_k())
   |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel
fix: write split(k).pipeline(n).specialize() as the first split, and tile(...).to(Warpgroup) without staggered() \
below it""",
    )
