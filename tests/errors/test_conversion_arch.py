"""A conversion to 8-bit floats on sm_80; it needs sm_89."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Move, Thread


def wrong() -> Any:
    return (
        Move(Matrix(64, 64), Matrix(64, 64, "e4m3"), arch="sm_80")
        .tile(64, 64)
        .to(Block)
        .vectors()
        .to(Thread)
        .unroll()
        .done()
    )


def test_conversion_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conversion-arch",
        "done()",
        """\
DecompositionError[conversion-arch]: converting e4m3 takes an instruction of sm_89, and this is for sm_80
  --> test_conversion_arch.py:19:10
19 |         .done()
   |          ^^^^^^
fix: compile for sm_89 or later, or convert the arrays before the kernel""",
    )
