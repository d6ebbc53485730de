"""A tile to Block that leaves a batch whole, for a product whose M is a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul, symbol


def wrong() -> Any:
    return matmul(symbol("M"), 64, 64, batch=2).tile(32, 32).to(Block).tile(4, 2).to(Thread).done()


def test_symbolic_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-gaps",
        "to(Block)",
        """\
DecompositionError[tile-gaps]: tiles of MatMul 2xMx64x64 leave batch whole in every block
  --> test_symbolic_threads.py:12:62
12 |     return matmul(symbol("M"), 64, 64, batch=2).tile(32, 32).to(Block).tile(4, 2).to(Thread).done()
   |                                                              ^^^^^^^^^
at:  MatMul 2xMx64x64 @ Kernel
fix: size the tile in that dimension too: tile(m, n, batch=1)""",
    )
