"""staggered() below loads that all units share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .load(A, SH)
        .load(B, SH)
        .tile(128, 128)
        .to(Warpgroup)
        .staggered(2)
        .split(16)
        .unroll()
        .tile(64, 128)
        .unroll()
        .done()
    )


def test_staggered_loads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) lets units compute different tiles at a time, and the loads above belong to all of them
  --> test_staggered_loads.py:23:10
23 |         .staggered(2)
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH
fix: give the loads to a role of their own: split(k).pipeline(n).specialize() above""",  # noqa: E501
    )
