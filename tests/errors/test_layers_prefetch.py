"""prefetch=True where each block computes a single tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(64, 64, name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(32).to(Block).load(A, SH).each(lambda one: one.epilog().done(), prefetch=True)


def test_layers_prefetch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "layers-prefetch",
        "each(lambda one: one.epilog().done(), prefetch=True)",
        """\
DecompositionError[layers-prefetch]: prefetch=True: each block computes one tile, so there is no next tile to prefetch
  --> test_layers_prefetch.py:13:59
13 |     return layers(y, x, w).tile(32).to(Block).load(A, SH).each(lambda one: one.epilog().done(), prefetch=True)
   |                                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Layers 64x64 @ Kernel > tile 32 to Block > load A to SH
fix: use tile(m).to(Block).persistent(), or drop prefetch=""",
    )
