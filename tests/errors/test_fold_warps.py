"""A fold whose parts lie in different lanes of several warps."""

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


@fi.program(x="a b c")
def planes(x: Any) -> Any:
    return fi.sum(x, "a c")


def apart() -> Any:
    x = fi.tensor(6, 5, 32, dtype="bf16")
    return planes(x, out="f32").tile(b=5).to(Block).split(a=2).load("x", RF, vector(4)).done()


def test_parts_in_different_lanes(refused: Callable[..., Any]) -> None:
    """Planes are 80 threads apart: half of a result lies two and a half warps behind the other half."""
    refused(
        apart,
        "fold-warps",
        "split(a=2)",
        """\
DecompositionError[fold-warps]: several warps hold parts of sum along a, c, each in other lanes
  --> test_fold_warps.py:31:53
31 |     return planes(x, out="f32").tile(b=5).to(Block).split(a=2).load("x", RF, vector(4)).done()
   |                                                     ^^^^^^^^^^
at:  Program 5x6x32 @ Kernel > tile 5 to Block
fix: give whole warps to each value: parallel(Warp) along the folded dims, or tiles of 32 threads""",
    )


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
fix: give each value the same number of warps""",
    )
