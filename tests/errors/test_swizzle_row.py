"""swizzle() wider than a row of the buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Swizzle, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).split(32).load(A, SH).swizzle(Swizzle(3, 3, 3))


def test_swizzle_row(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "swizzle-row",
        "swizzle(Swizzle(3, 3, 3))",
        """\
DecompositionError[swizzle-row]: Swizzle(3, 3, 3) exchanges elements among 64 neighbours, and a row of A in SH holds 32
  --> test_swizzle_row.py:12:88
12 |     return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).split(32).load(A, SH).swizzle(Swizzle(3, 3, 3))
   |                                                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > split 32 > load A to SH
fix: use Swizzle(2, 3, 3) at most, load wider tiles, or choose the other order before""",
    )
