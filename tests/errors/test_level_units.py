"""to() with units=0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block, units=0)


def test_level_units(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-units",
        "to(Block, units=0)",
        """\
DecompositionError[level-units]: units=0 leaves no unit to take the tiles
  --> test_level_units.py:12:44
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block, units=0)
   |                                            ^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32
fix: use units=1 or more, or drop units=""",
    )
