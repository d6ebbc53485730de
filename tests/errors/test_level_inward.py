"""A tile to Thread without a tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Thread, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(4, 4).to(Thread)


def test_level_inward(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-nests",
        "to(Thread)",
        """\
DecompositionError[level-nests]: cannot map tiles of MatMul 64x64x64 to Thread: a Kernel holds blocks, and blocks hold Threads
  --> test_level_inward.py:12:42
12 |     return matmul(64, 64, 64).tile(4, 4).to(Thread)
   |                                          ^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 4x4
fix: tile to Block first, then to Thread""",  # noqa: E501
    )
