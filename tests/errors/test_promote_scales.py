"""promote() with scales that change inside a chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, Block, Matrix, dequantise, matmul


def wrong() -> Any:
    scales = Matrix(128, 8, name="scales")
    chain = matmul(128, 128, 512, "e4m3", layout="TN").prolog(A, dequantise("f32", scales))
    return chain.tile(128, 128).to(Block).epilog(memory=RF).split(128).promote()


def test_promote_scales(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "promote-scales",
        "promote()",
        """\
DecompositionError[promote-scales]: scales[128, 8].f32.GL changes every 64 of K, and chunks of 128 are one sum
  --> test_promote_scales.py:14:72
14 |     return chain.tile(128, 128).to(Block).epilog(memory=RF).split(128).promote()
   |                                                                        ^^^^^^^^^
at:  MatMul 128x128x512 @ Kernel > prolog A > tile 128x128 to Block > epilog RF > split 128
fix: split(64), or by a divisor of it""",
    )
