"""pipeline(0) of a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(Matrix(64, 512)).tile(m=1).to(Block).persistent().pipeline(0)


def test_pipeline_no_tile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-stages",
        "pipeline(0)",
        """\
DecompositionError[pipeline-stages]: a pipeline of 0 stages has no slot
  --> test_pipeline_no_tile.py:13:70
13 |     return softmax(Matrix(64, 512)).tile(m=1).to(Block).persistent().pipeline(0)
   |                                                                      ^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 1 to Block
fix: use 1 or more""",
    )
