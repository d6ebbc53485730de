"""to() with a range of resident blocks whose ends are exchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block, resident=(4, 2))


def test_level_resident(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-units",
        "to(Block, resident=(4, 2))",
        """\
DecompositionError[level-units]: resident=(4, 2) is no number of blocks, nor a range of it
  --> test_level_resident.py:12:44
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block, resident=(4, 2))
   |                                            ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32
fix: use 1 or more, or 0 for no limit; or the least and the largest number: resident=(1, 8)""",
    )
