"""A layer without an epilog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, Thread, layers


def wrong() -> Any:
    x, y, w = (Matrix(64, 64, name=name) for name in ("X", "Y", "W"))
    start = layers(y, x, w).tile(8).to(Block).load(A, SH)
    return start.each(lambda one: one.tile(1, 1).to(Thread).done())


def test_layers_no_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-epilog",
        "done()",
        """\
DecompositionError[no-epilog]: no link places the sums of MatMul 1x1x64
  --> test_layers_no_epilog.py:14:61
14 |     return start.each(lambda one: one.tile(1, 1).to(Thread).done())
   |                                                             ^^^^^^
at:  Layers 64x64 @ Kernel > tile 8 to Block > load A to SH > W > tile 1x1 to Thread
fix: add .epilog() first in the layer's chain""",
    )
