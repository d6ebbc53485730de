"""load= with one slot for tiles that two units compute in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Matrix, Warpgroup, add, matmul, tma

residual = Matrix(256, 256, "f16", name="residual")


def wrong() -> Any:
    spec = matmul(256, 256, 128, "f16", layout="TN", arch="sm_90a")
    chain = spec.tile(64, 64).to(Block).persistent().epilog(add(residual), memory=FR, load={residual: tma()})
    chain = chain.split(64).pipeline(3).specialize(registers=(24, 240)).load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(64, 64).to(Warpgroup).staggered(2).split(16).unroll().done()


def test_epilog_load_turns(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(residual), memory=FR, load={residual: tma()})",
        """\
DecompositionError[epilog-load]: slots=1 for tiles of residual that 2 units compute in turn: each unit would skip \
phases of a slot's mbarriers
  --> test_epilog_load_turns.py:15:54
15 |     chain = spec.tile(64, 64).to(Block).persistent().epilog(add(residual), memory=FR, load={residual: tma()})
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x128 @ Kernel > tile 64x64 to Block
fix: slots=2: one for each unit, or let the units share a tile""",
    )
