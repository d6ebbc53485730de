"""A tile of a dim that the program does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile(k=8)


def test_tile_no_such_dimension(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-dimension",
        "tile(k=8)",
        """\
DecompositionError[no-such-dimension]: Program 64x64 has no dimension k to tile
  --> test_tile_no_such_dimension.py:18:34
18 |     return total(Matrix(64, 64)).tile(k=8)
   |                                  ^^^^^^^^^
at:  Program 64x64 @ Kernel
fix: dimensions: m, n""",
    )
