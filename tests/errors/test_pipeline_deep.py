"""pipeline(3000): refused at the link, before lowering makes the slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).pipeline(3000)


def test_pipeline_deep(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-stages",
        "pipeline(3000)",
        """\
DecompositionError[pipeline-stages]: a pipeline of 3000 stages is deeper than 64: no shared memory holds its slots
  --> test_pipeline_deep.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).pipeline(3000)
   |                                                               ^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: use 2 to 64; 3 to 8 hide the latency of memory""",
    )
