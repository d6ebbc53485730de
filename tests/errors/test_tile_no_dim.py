"""A program's tile without a dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 64)).tile()


def test_tile_no_dim(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tile-arguments",
        "tile()",
        """\
DecompositionError[tile-arguments]: tile() names no dim
  --> test_tile_no_dim.py:18:34
18 |     return total(Matrix(64, 64)).tile()
   |                                  ^^^^^^
at:  Program 64x64 @ Kernel
fix: tile(i=128)""",
    )
