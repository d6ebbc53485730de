"""specialize(prefetch=17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import FR, SH, A, B, Block, FireironError, Warpgroup, matmul, tma


def wrong(prefetch: int = 17) -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(prefetch=prefetch)
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_role_prefetch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-prefetch",
        "specialize(prefetch=prefetch)",
        """\
DecompositionError[role-prefetch]: specialize(prefetch=17) prefetches 17 chunks into the L2 cache
  --> test_role_prefetch.py:22:10
22 |         .specialize(prefetch=prefetch)
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64
fix: give 0 to 16 chunks; more than two or three delay those that products wait for""",
    )


def test_fewer_than_none() -> None:
    with pytest.raises(FireironError, match="prefetches -1 chunks into the L2 cache"):
        wrong(-1)
    assert "prefetch 16" in str(wrong(16).tree())
