"""Layers without a load of X to on-chip memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(64, 64, name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(32).to(Block).each(lambda one: one.epilog().done())


def test_layers_on_chip(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "layers-on-chip",
        "each(lambda one: one.epilog().done())",
        """\
DecompositionError[layers-on-chip]: each layer of Layers 32x64 would read data that other blocks write
  --> test_layers_on_chip.py:13:47
13 |     return layers(y, x, w).tile(32).to(Block).each(lambda one: one.epilog().done())
   |                                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Layers 64x64 @ Kernel > tile 32 to Block
fix: tile(m).to(Block), then load(A, SH) or load(A, FR) above each(...)""",
    )
