"""each() in the chain of a Move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Move


def wrong() -> Any:
    move: Any = Move(Matrix(64, 32), Matrix(64, 32)).tile(32, 32).to(Block)
    return move.vectors(16).each()


def test_wrong_spec(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-spec",
        "each()",
        """\
DecompositionError[wrong-spec]: Move ?x? has no each, which only layers and programs have
  --> test_wrong_spec.py:13:29
13 |     return move.vectors(16).each()
   |                             ^^^^^^
at:  Move 64x32 @ Kernel > tile 32x32 to Block > tile widest 16 B
fix: next may come: dependent, done, layout, load, own, permute, persistent, pipeline, staggered, tile, to, unroll, vectors""",  # noqa: E501
    )
