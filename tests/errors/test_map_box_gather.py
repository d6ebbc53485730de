"""A load of several gathered lines by one tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Matrix, Vector, vector
from fireiron.schedules import rows


def wrong() -> Any:
    chain = rows.embedding(Vector(64, "i32", name="ids"), Matrix(70, 32, name="table"))
    return chain.tile(m=8).to(Block).load("table", RF, vector())


def test_map_box_gather(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "map-box",
        'load("table", RF, vector())',
        """\
DecompositionError[map-box]: a tile reads elements along ids[m] at places that an array of the call gives
  --> test_map_box_gather.py:14:38
14 |     return chain.tile(m=8).to(Block).load("table", RF, vector())
   |                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x32 @ Kernel > tile 8 to Block
fix: tile m by 1 above this place""",
    )
