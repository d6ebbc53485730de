"""split(ways=) in a spec that is split by the extent of a chunk alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, layers, relu


def wrong() -> Any:
    x, y, w = Matrix(64, 32, name="x"), Matrix(64, 32, name="y"), Matrix(32, 32, name="w")
    return layers(y, x, (w, relu)).tile(32).to(Block).load(A, SH).each(lambda layer: layer.epilog().split(ways=4))


def test_wrong_spec_number_of_chunks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-spec",
        "split(ways=4)",
        """\
DecompositionError[wrong-spec]: MatMul 32x32x32 is split by the extent of a chunk alone
  --> test_wrong_spec_number_of_chunks.py:13:101
13 |     return layers(y, x, (w, relu)).tile(32).to(Block).load(A, SH).each(lambda layer: layer.epilog().split(ways=4))
   |                                                                                                     ^^^^^^^^^^^^^
at:  Layers 64x32 @ Kernel > tile 32 to Block > load A to SH > w > epilog FR
fix: split(16)""",
    )
