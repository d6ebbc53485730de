"""f32 sums of a product without an epilog, where C is f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul


def wrong() -> Any:
    tiled = matmul(64, 64, 64, "f16").tile(32, 32).to(Block).tile(4, 4).to(Thread).tile(1, 1)
    return tiled.split(1).done()


def test_sums_in_c(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "accumulator-dtype",
        "done()",
        """\
DecompositionError[accumulator-dtype]: products are summed in f32, and C in GL, where they would be summed, holds f16
  --> test_sums_in_c.py:13:27
13 |     return tiled.split(1).done()
   |                           ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > tile 4x4 to Thread > tile 1x1 > split 1
fix: sum in registers by .epilog(memory=RF), or state the product with acc="f16\"""",
    )
