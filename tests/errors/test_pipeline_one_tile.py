"""A pipeline of tiles with a single slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(Matrix(64, 512)).tile(m=1).to(Block).persistent().pipeline(1)


def test_pipeline_one_tile(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-stages",
        "pipeline(1)",
        """\
DecompositionError[pipeline-stages]: a pipeline of 1 stages has no slot to load ahead into
  --> test_pipeline_one_tile.py:13:70
13 |     return softmax(Matrix(64, 512)).tile(m=1).to(Block).persistent().pipeline(1)
   |                                                                      ^^^^^^^^^^^
at:  Program 64x512 @ Kernel > tile 1 to Block
fix: use 2 or more""",
    )
