"""A load of a step's result to registers, where it lies already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix


@fi.program(x="m n")
def computed(x: Any) -> Any:
    part = fi.exp(x).named("part")
    return part * fi.sum(part, "n")


def wrong() -> Any:
    return computed(Matrix(64, 64)).tile(m=4).to(Block).load("part", RF)


def test_load_result_to_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "already-there",
        'load("part", RF)',
        """\
DecompositionError[already-there]: part lies in registers already: threads compute it there
  --> test_load_result_to_registers.py:19:57
19 |     return computed(Matrix(64, 64)).tile(m=4).to(Block).load("part", RF)
   |                                                         ^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 4 to Block
fix: drop this load""",
    )
