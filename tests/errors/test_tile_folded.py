"""A tile of a dim that the step folds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(n=8)


def test_tile_folded(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-folded",
        "tile(n=8)",
        """\
DecompositionError[tile-folded]: step sum folds n, and with a tile of n each unit would have only a part of its result
  --> test_tile_folded.py:18:34
18 |     return total(Matrix(64, 64)).tile(n=8)
   |                                  ^^^^^^^^^
at:  Program 64x64 @ Kernel
fix: split(n=8) for a loop, or split("n", ways=n).parallel(level)""",
    )
