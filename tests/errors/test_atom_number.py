"""done() with a number instead of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).done(16)


def test_atom_number(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-atom",
        "done(16)",
        """\
DecompositionError[unknown-atom]: 16 is no instruction
  --> test_atom_number.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).done(16)
   |                                                      ^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: give an atom, the start of names such as "mma.m16n8k16", or a microkernel""",
    )
