"""pipeline() of a tile without loads to shared memory below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Matrix, Warp, vector
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return (
        softmax(Matrix(64, 512))
        .tile(m=1)
        .to(Block)
        .persistent()
        .pipeline(2)
        .split("n", ways=4)
        .parallel(Warp)
        .load("x", RF, vector())
        .done()
    )


def test_pipeline_empty_of_tiles(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "pipeline-empty",
        "pipeline(2)",
        """\
DecompositionError[pipeline-empty]: pipeline(2) has no load below it to run ahead
  --> test_pipeline_empty_of_tiles.py:18:10
18 |         .pipeline(2)
   |          ^^^^^^^^^^^
at:  Program 64x512 @ Kernel
fix: load an input to SH below the tile, above loops: load("x", SH, cp_async())""",
    )
