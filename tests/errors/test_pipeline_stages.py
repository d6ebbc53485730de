"""pipeline(0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).pipeline(0)


def test_pipeline_stages(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-stages",
        "pipeline(0)",
        """\
DecompositionError[pipeline-stages]: a pipeline of 0 stages has no slot
  --> test_pipeline_stages.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).pipeline(0)
   |                                                               ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: use 2 or more""",
    )
