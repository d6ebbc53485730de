"""A strategy that returns None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Thread, matmul


def wrong() -> Any:
    def forgetful(move: Any) -> Any:
        move.tile(1, 4).to(Thread).done()

    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, forgetful)


def test_strategy_returns_nothing(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished-move",
        "load(A, SH, forgetful)",
        """\
DecompositionError[unfinished-move]: strategy forgetful leaves None: a Move must be decomposed to atoms
  --> test_strategy_returns_nothing.py:15:63
15 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH, forgetful)
   |                                                               ^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: end the strategy's chain by .done()""",
    )
