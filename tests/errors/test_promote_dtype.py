"""promote() with chunk sums of f32 and accumulators of f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, matmul


def wrong() -> Any:
    chain = matmul(64, 64, 64, "f16", acc="f16").tile(64, 64).to(Block).epilog(memory=FR)
    return chain.split(16).promote()


def test_promote_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "accumulator-dtype",
        "promote()",
        """\
DecompositionError[accumulator-dtype]: sums of f32 are not added to accumulators of f16, which hold less
  --> test_promote_dtype.py:13:28
13 |     return chain.split(16).promote()
   |                            ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog FR > split 16
fix: accumulate by epilog(dtype="f32")""",
    )
