"""done() at level Block, where only instructions of threads match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 1).tile(1, 1).to(Block).load(A, SH).done()


def test_no_atom_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done()",
        """\
DecompositionError[no-atom]: no atom executes MatMul(1, 1, 1)(SH, GL, GL)(Block): nearest: fma.f32 (it takes A in RF, not SH, it takes B in RF, not GL, it takes C in RF, not GL, a Thread executes it, not a Block)
  --> test_no_atom_level.py:12:63
12 |     return matmul(64, 64, 1).tile(1, 1).to(Block).load(A, SH).done()
   |                                                               ^^^^^^
at:  MatMul 64x64x1 @ Kernel > tile 1x1 to Block > load A to SH
fix: tile to Thread, load A to RF, load B to RF, accumulate C by epilog(memory=RF)""",  # noqa: E501
    )
