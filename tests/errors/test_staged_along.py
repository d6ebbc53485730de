"""staged(along=) with a dim that the Move does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, matmul, staged


def wrong() -> Any:
    return matmul(64, 64, 64, "f16").tile(32, 32).to(Block).load(A, SH, staged(along="c"))


def test_staged_along(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-dimension",
        'load(A, SH, staged(along="c"))',
        """\
DecompositionError[no-such-dimension]: Move 32x64 has no dimension c to tile
  --> test_staged_along.py:12:61
12 |     return matmul(64, 64, 64, "f16").tile(32, 32).to(Block).load(A, SH, staged(along="c"))
   |                                                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: dimensions: M, K""",
    )
