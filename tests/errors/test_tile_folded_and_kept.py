"""A tile of a dim that one step folds and another step keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return softmax(Matrix(64, 64)).tile(m=8, n=8)


def test_tile_folded_and_kept(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-folded",
        "tile(m=8, n=8)",
        """\
DecompositionError[tile-folded]: step top folds n, and with a tile of n each unit would have only a part of its result
  --> test_tile_folded_and_kept.py:18:36
18 |     return softmax(Matrix(64, 64)).tile(m=8, n=8)
   |                                    ^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel
fix: split(n=8) for a loop, or split("n", ways=n).parallel(level)""",
    )
