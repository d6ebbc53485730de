"""then() below the epilog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul, relu


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog().then(relu)


def test_then_first(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "then-first",
        "then(relu)",
        """\
DecompositionError[then-first]: then() stands after the epilog that would apply its ops
  --> test_then_first.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog().then(relu)
   |                                                               ^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF
fix: write it first: spec.then(...).tile(...), or give the ops to epilog(...)""",
    )
