"""A load of a step's result to shared memory above the tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import SH, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    part = fi.exp(x).named("part")
    return part * fi.sum(part, "n")


def wrong() -> Any:
    return computed(Matrix(64, 64)).load("part", SH)


def test_load_result_at_kernel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-level",
        'load("part", SH)',
        """\
DecompositionError[load-level]: no block owns a buffer for part at level Kernel
  --> test_load_result_at_kernel.py:19:37
19 |     return computed(Matrix(64, 64)).load("part", SH)
   |                                     ^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel
fix: tile to Block above this link""",
    )
