"""A prolog that no load applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, B, Block, cp_async, matmul, relu


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block).prolog(A, relu).split(8)
    return chain.load(A, SH, cp_async()).load(B, SH).done()


def test_prolog_left(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "prolog-left",
        "done()",
        """\
DecompositionError[prolog-left]: the prolog of A was not applied: no load moved A through registers
  --> test_prolog_left.py:13:54
13 |     return chain.load(A, SH, cp_async()).load(B, SH).done()
   |                                                      ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > prolog A > split 8 > load A to SH > load B to SH
fix: load A to RF or FR, or by staged() to SH; cp_async() and tma() compute nothing""",
    )
