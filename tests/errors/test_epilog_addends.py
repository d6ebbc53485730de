"""addends= where the first op adds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, add, matmul, relu

residual = Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(relu, add(residual), addends=True)


def test_epilog_addends(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-addends",
        "epilog(relu, add(residual), addends=True)",
        """\
DecompositionError[epilog-addends]: addends= starts sums from what the first op adds, and the first op adds nothing
  --> test_epilog_addends.py:15:18
15 |     return chain.epilog(relu, add(residual), addends=True)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: drop addends=, or let add(...) be the first op""",
    )
