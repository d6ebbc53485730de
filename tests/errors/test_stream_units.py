"""stream_k(0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, RowMajor, matmul, stream_k


def wrong() -> Any:
    return matmul(256, 256, 64, "bf16").tile(128, 128).to(Block).persistent(RowMajor, share=stream_k(0))


def test_stream_units(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "stream-units",
        "persistent(RowMajor, share=stream_k(0))",
        """\
DecompositionError[stream-units]: stream_k(0) has no units to share the work
  --> test_stream_units.py:12:66
12 |     return matmul(256, 256, 64, "bf16").tile(128, 128).to(Block).persistent(RowMajor, share=stream_k(0))
   |                                                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x64 @ Kernel > tile 128x128 to Block
fix: use 1 or more: the GPU's SMs""",
    )
