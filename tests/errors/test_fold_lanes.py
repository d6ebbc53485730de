"""A row that 24 lanes of a warp share; shuffles need a power of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Thread


@fi.program(x="m n")
def total(x: Any) -> Any:
    return fi.sum(x, "n")


def wrong() -> Any:
    return total(Matrix(64, 24)).tile(m=1).to(Block).split("n", ways=24).parallel(Thread).done()


def test_fold_lanes(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-lanes",
        "done()",
        """\
DecompositionError[fold-lanes]: lanes hold parts of sum along n, and their numbers do not differ by whole bits, as \
shuffles need
  --> test_fold_lanes.py:18:91
18 |     return total(Matrix(64, 24)).tile(m=1).to(Block).split("n", ways=24).parallel(Thread).done()
   |                                                                                           ^^^^^^
at:  Program 64x24 @ Kernel > tile 1 to Block > split n 24 ways to Thread
fix: give lanes a power of two of equal parts""",
    )
