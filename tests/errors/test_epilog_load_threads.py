"""load= with a strategy that copies by threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Matrix, Warpgroup, add, matmul, tma, vector

residual = Matrix(256, 256, "f16", name="residual")


def wrong() -> Any:
    spec = matmul(256, 256, 128, "f16", layout="TN", arch="sm_90a")
    chain = spec.tile(128, 64).to(Block).epilog(add(residual), memory=FR, load={residual: vector()})
    chain = chain.split(64).pipeline(3).specialize(registers=(24, 240)).load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(64, 64).to(Warpgroup).split(16).unroll().done()


def test_epilog_load_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(residual), memory=FR, load={residual: vector()})",
        """\
DecompositionError[epilog-load]: load= copies residual by threads, and the role that loads starts bulk copies alone
  --> test_epilog_load_threads.py:15:42
15 |     chain = spec.tile(128, 64).to(Block).epilog(add(residual), memory=FR, load={residual: vector()})
   |                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x128 @ Kernel > tile 128x64 to Block
fix: load={residual: tma()}, or early=residual, which threads load to registers""",
    )
