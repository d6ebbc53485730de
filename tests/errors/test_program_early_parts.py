"""early= for an array whose load follows no loop of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, Value, program, tensor


@program(x="m n", bias="n")
def shifted(x: Value, bias: Value) -> Value:
    """Add a bias."""
    return x + bias


def wrong() -> Any:
    chain = shifted(tensor(64, 64), tensor(64, name="bias")).tile(m=8, n=64).to(Block)
    return chain.epilog(early="bias").tile(m=1, n=4).to(Thread).done().lowered()


def test_program_early_parts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-early",
        'epilog(early="bias")',
        """\
DecompositionError[epilog-early]: early= loads bias before the products, but no load of bias to registers stands \
behind their loop
  --> test_program_early_parts.py:19:18
19 |     return chain.epilog(early="bias").tile(m=1, n=4).to(Thread).done().lowered()
   |                  ^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 8x64 to Block
fix: drop early=, or let one unit compute each tile and its threads read the operand there""",
    )
