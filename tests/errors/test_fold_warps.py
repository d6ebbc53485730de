"""A fold in two of sixteen warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, vector


@fi.program(x="m n", w="m k")
def totals(x: Any, w: Any) -> Any:
    return fi.sum(x, "n"), fi.sum(w, "k")


def wrong() -> Any:
    return (
        totals(Matrix(8, 32), Matrix(8, 256)).tile(m=2).to(Block)
        .load("w", RF, vector(4)).load("x", RF, vector(4)).done()
    )  # fmt: skip


def test_fold_warps(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-warps",
        "done()",
        """\
DecompositionError[fold-warps]: warps hold parts of sum in groups of different sizes
  --> test_fold_warps.py:20:60
20 |         .load("w", RF, vector(4)).load("x", RF, vector(4)).done()
   |                                                            ^^^^^^
at:  Program 8x32x256 @ Kernel > tile 2 to Block > load w to RF > load x to RF
fix: give every value equally many warps""",
    )
