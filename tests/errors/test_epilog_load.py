"""load= for a bias, which does not have the shape of C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Vector, add, matmul, tma

bias, residual = Vector(64, name="bias"), Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(add(bias), add(residual), load={bias: tma()})


def test_epilog_load(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(bias), add(residual), load={bias: tma()})",
        """\
DecompositionError[epilog-load]: bias[64].f32.GL is no operand of C's shape that an op of this epilog reads
  --> test_epilog_load.py:15:18
15 |     return chain.epilog(add(bias), add(residual), load={bias: tma()})
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: load={residual: tma()}""",
    )
