"""A layer with two epilogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(64, 64, name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(8).to(Block).load(A, SH).each(lambda one: one.epilog().epilog())


def test_layers_second_epilog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "second-epilog",
        "epilog()",
        """\
DecompositionError[second-epilog]: the sums of MatMul 8x64x64 lie in registers already
  --> test_layers_second_epilog.py:13:88
13 |     return layers(y, x, w).tile(8).to(Block).load(A, SH).each(lambda one: one.epilog().epilog())
   |                                                                                        ^^^^^^^^
at:  Layers 64x64 @ Kernel > tile 8 to Block > load A to SH > W > epilog FR
fix: drop this epilog""",
    )
