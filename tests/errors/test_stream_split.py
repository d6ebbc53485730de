"""stream_k() where the first split gives its chunks to blocks already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, RowMajor, matmul, stream_k


def wrong() -> Any:
    return (
        matmul(256, 256, 256, "bf16", layout="TN")
        .tile(128, 128).to(Block).persistent(RowMajor, share=stream_k())
        .epilog(memory=FR)
        .split(ways=2, multiple_of=64).parallel(Block)
        .split(64).done()
    )  # fmt: skip


def test_stream_split(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "stream-split",
        "persistent(RowMajor, share=stream_k())",
        """\
DecompositionError[stream-split]: stream_k(132) shares out the chunks of the first split, and the first split gives \
chunks to Blocks already
  --> test_stream_split.py:14:35
14 |         .tile(128, 128).to(Block).persistent(RowMajor, share=stream_k())
   |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel
fix: write split(k) as the first split, without unroll() on it and staggered() below it""",
    )
