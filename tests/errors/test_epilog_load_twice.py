"""A tensor in both early= and load=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, add, matmul, tma

residual = Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(add(residual), early=residual, load={residual: tma()})


def test_epilog_load_twice(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(residual), early=residual, load={residual: tma()})",
        """\
DecompositionError[epilog-load]: residual is loaded twice: to registers by early=, to shared memory by load=
  --> test_epilog_load_twice.py:15:18
15 |     return chain.epilog(add(residual), early=residual, load={residual: tma()})
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: drop one of them""",
    )
