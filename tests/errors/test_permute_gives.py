"""permute() with a function that returns None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, Thread, matmul


def wrong() -> Any:
    chain = matmul(64, 64, 32).tile(32, 32).to(Block).epilog(memory=RF)
    return chain.tile(4, 4).to(Thread).permute(lambda i: None).done()


def test_permute_gives(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "not-a-permutation",
        "permute(lambda i: None)",
        """\
DecompositionError[not-a-permutation]: permute gives None for a unit's id, which is no index
  --> test_permute_gives.py:13:40
13 |     return chain.tile(4, 4).to(Thread).permute(lambda i: None).done()
   |                                        ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x32 @ Kernel > tile 32x32 to Block > epilog
fix: return an expression of the id: lambda i: (i >> 1) | ((i & 1) << 3)""",
    )
