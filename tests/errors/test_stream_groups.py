"""The chunks of groups' tiles are shared out, whose number only the kernel knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, RowMajor, Warpgroup, matmul, stream_k, tma


def wrong() -> Any:
    return (
        matmul(256, 256, 256, "bf16", layout="TN", groups=4)
        .tile(128, 128, batch=1).to(Block).persistent(RowMajor, share=stream_k())
        .epilog(memory=FR)
        .split(64).pipeline(2).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def test_stream_groups(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "stream-groups",
        "persistent(RowMajor, share=stream_k())",
        """\
DecompositionError[stream-groups]: stream_k(132) shares out the chunks of all tiles, and how many tiles groups have is \
known where the kernel runs
  --> test_stream_groups.py:14:44
14 |         .tile(128, 128, batch=1).to(Block).persistent(RowMajor, share=stream_k())
   |                                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 4x256x256x256 @ Kernel
fix: drop stream_k(), or share out each tile's K: split(ways=n).parallel(Block)""",
    )
