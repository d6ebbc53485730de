"""A row sum where each block holds only a part of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, ColMajor, Vector, matmul, row_sum


def wrong() -> Any:
    total = Vector(64, name="total", along=ColMajor)
    return matmul(64, 96, 64).tile(32, 32).to(Block).epilog(row_sum(total))


def test_epilog_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-rows",
        "epilog(row_sum(total))",
        """\
DecompositionError[epilog-rows]: total[64, 1].f32.GL has 1 value for rows of 96, a block holds 32 of them
  --> test_epilog_rows.py:13:54
13 |     return matmul(64, 96, 64).tile(32, 32).to(Block).epilog(row_sum(total))
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x96x64 @ Kernel > tile 32x32 to Block
fix: give it 3 columns, one for each block, or tile so that a block holds the whole row""",
    )
