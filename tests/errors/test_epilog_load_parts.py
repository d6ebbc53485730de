"""load= where several blocks share a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Matrix, Warpgroup, add, matmul, tma

residual = Matrix(256, 256, "f16", name="residual")


def wrong() -> Any:
    spec = matmul(256, 256, 512, "f16", layout="TN", arch="sm_90a")
    chain = spec.tile(128, 64).to(Block).epilog(add(residual), memory=FR, load={residual: tma()})
    chain = chain.split(ways=2, multiple_of=64).parallel(Block).split(64).pipeline(3).specialize(registers=(24, 240))
    return chain.load(A, SH, tma()).load(B, SH, tma()).tile(64, 64).to(Warpgroup).split(16).unroll().done()


def test_epilog_load_parts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-load",
        "epilog(add(residual), memory=FR, load={residual: tma()})",
        """\
DecompositionError[epilog-load]: load= brings residual to the block of each tile, but only some of the units that \
share a tile's sums run the ops
  --> test_epilog_load_parts.py:15:42
15 |     chain = spec.tile(128, 64).to(Block).epilog(add(residual), memory=FR, load={residual: tma()})
   |                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x512 @ Kernel > tile 128x64 to Block
fix: drop load=, or let one unit compute each tile: without parallel(...) and stream_k()""",
    )
