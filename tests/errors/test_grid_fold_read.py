"""A step that needs a whole row, where several blocks share each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Warp


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return (
        softmax(Matrix(8, 512))
        .tile(m=1)
        .to(Block)
        .split("n", ways=2)
        .parallel(Block)
        .split("n", ways=2)
        .parallel(Warp)
        .done()
    )


def test_grid_fold_read(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "grid-fold-read",
        "parallel(Block)",
        """\
DecompositionError[grid-fold-read]: step part has n and reads top, which only the last block to arrive has
  --> test_grid_fold_read.py:23:10
23 |         .parallel(Block)
   |          ^^^^^^^^^^^^^^^
at:  Program 8x512 @ Kernel > tile 1 to Block
fix: let one block or a cluster have n, or compute part by a kernel of its own""",
    )
