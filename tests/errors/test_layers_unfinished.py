"""A layer whose chain is not closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(64, 64, name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(32).to(Block).load(A, SH).each(lambda one: one.epilog().split(8))


def test_layers_unfinished(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unfinished-layer",
        "each(lambda one: one.epilog().split(8))",
        """\
DecompositionError[unfinished-layer]: the chain of layer W leaves MatMul(32, 64, 8)(SH, GL, FR)(Block)
  --> test_layers_unfinished.py:13:59
13 |     return layers(y, x, w).tile(32).to(Block).load(A, SH).each(lambda one: one.epilog().split(8))
   |                                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Layers 64x64 @ Kernel > tile 32 to Block > load A to SH
fix: end it by .done()""",
    )
