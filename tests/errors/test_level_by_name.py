"""The name of a level instead of the level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to("Block")


def test_level_by_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        'to("Block")',
        """\
DecompositionError[argument-kind]: to takes a level, not 'Block'
  --> test_level_by_name.py:12:44
12 |     return matmul(64, 64, 64).tile(32, 32).to("Block")
   |                                            ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32
fix: give Block, Warp, Thread or another of fireiron's levels, without quotes""",
    )
