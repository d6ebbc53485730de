"""load= without a loading role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Matrix, Thread, add, matmul, tma

residual = Matrix(64, 64, name="residual")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), load={residual: tma()})
    chain = chain.split(8).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_epilog_load_role(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(residual), load={residual: tma()})",
        """\
DecompositionError[epilog-load]: load= brings residual to shared memory while the products run, and no role of this \
block loads
  --> test_epilog_load_role.py:14:55
14 |     chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(add(residual), load={residual: tma()})
   |                                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: give the loads of the products a role of their own: split(k).pipeline(n).specialize()""",
    )
