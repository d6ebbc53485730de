"""The operand A of a chain of several products, each of which has an A."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, products


def wrong() -> Any:
    x, h, w, u, y = (Matrix(64, 64, name=name) for name in ("x", "h", "w", "u", "y"))
    return products(y, [(x, w), (h, u)]).tile(32, 32).to(Block).epilog().split(8).load(A, SH)


def test_ambiguous_operand(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "ambiguous-operand",
        "load(A, SH)",
        """\
DecompositionError[ambiguous-operand]: A of MatMul 32x32x8 may be any of x, h: it has several products
  --> test_ambiguous_operand.py:13:83
13 |     return products(y, [(x, w), (h, u)]).tile(32, 32).to(Block).epilog().split(8).load(A, SH)
   |                                                                                   ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF > split 8
fix: name the tensor: load(x, ...)""",
    )
