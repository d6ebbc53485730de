"""persistent() on a tile to Warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Warp, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).tile(64, 64).to(Warp).persistent()


def test_persistent_level(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "persistent-level",
        "persistent()",
        """\
DecompositionError[persistent-level]: persistent() belongs to the tile that goes to the grid's blocks or clusters, not to one for a Warp inside a Block
  --> test_persistent_level.py:12:88
12 |     return matmul(512, 512, 512, "f16").tile(128, 128).to(Block).tile(64, 64).to(Warp).persistent()
   |                                                                                        ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > tile 64x64 to Warp
fix: tile(m, n).to(Block).persistent(), first in the chain""",  # noqa: E501
    )
