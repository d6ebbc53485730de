"""An epilog that loads behind the products what it does not name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Vector, add, matmul

bias, residual = Vector(64, name="bias"), Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(add(bias), add(residual), behind=True)


def test_epilog_behind(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-early",
        "epilog(add(bias), add(residual), behind=True)",
        """\
DecompositionError[epilog-early]: behind= loads what early= names behind the products, and early= names nothing
  --> test_epilog_behind.py:15:18
15 |     return chain.epilog(add(bias), add(residual), behind=True)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: early=(residual,)""",
    )
