"""split(ways=) in a spec that is split by the extent of a chunk alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Matrix, products


def wrong() -> Any:
    x, y, w = Matrix(64, 96, name="x"), Matrix(64, 128, name="y"), Matrix(96, 128, name="w")
    return products(y, (x, w)).tile(32, 32).to(Block).epilog(memory=RF).split(ways=4)


def test_wrong_spec_number_of_chunks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-spec",
        "split(ways=4)",
        """\
DecompositionError[wrong-spec]: MatMul 32x32x96 is split by the extent of a chunk alone
  --> test_wrong_spec_number_of_chunks.py:13:73
13 |     return products(y, (x, w)).tile(32, 32).to(Block).epilog(memory=RF).split(ways=4)
   |                                                                         ^^^^^^^^^^^^^
at:  MatMul 64x128x96 @ Kernel > tile 32x32 to Block > epilog RF
fix: split(16)""",
    )
