"""pipeline() of a tile that is no loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(Matrix(64, 512)).tile(m=1).to(Block).pipeline(2)


def test_pipeline_loop(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-loop",
        "pipeline(2)",
        """\
DecompositionError[pipeline-loop]: each Block takes one tile: there is no later one whose loads could run ahead
  --> test_pipeline_loop.py:13:57
13 |     return softmax(Matrix(64, 512)).tile(m=1).to(Block).pipeline(2)
   |                                                         ^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 1 to Block
fix: refine the tile by persistent() first, or pipeline a tile without a level, below it""",
    )
