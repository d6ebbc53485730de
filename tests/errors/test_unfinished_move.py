"""A strategy that does not end in done()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Thread, matmul


def wrong() -> Any:
    def halfway(move: Any) -> Any:
        return move.tile(1, 4).to(Thread)

    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, halfway)


def test_unfinished_move(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished-move",
        "load(A, SH, halfway)",
        """\
DecompositionError[unfinished-move]: strategy halfway leaves Move(1, 4)(GL, SH)(Thread): a Move must be decomposed to atoms
  --> test_unfinished_move.py:15:63
15 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, halfway)
   |                                                               ^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: end the strategy's chain by .done()""",  # noqa: E501
    )
