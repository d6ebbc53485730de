"""staggered() below an epilog whose store is one for the whole block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, stmatrix, through_shared, tma


def wrong() -> Any:
    store = through_shared(stmatrix(), tma(128), panel=(64, 64))
    chain = matmul(512, 512, 512, "f16", layout="TN").tile(128, 128).to(Block).persistent()
    chain = chain.epilog(memory=FR, store=store).split(64).pipeline(3).specialize(registers=(24, 240))
    chain = chain.load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(128, 128).to(Warpgroup).staggered(2)


def test_staggered_store(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-store",
        "staggered(2)",
        """\
DecompositionError[staggered-store]: staggered(2) lets units of Warpgroup store tiles at different times, and a store of the epilog above is one for the whole block
  --> test_staggered_store.py:16:47
16 |     return chain.tile(128, 128).to(Warpgroup).staggered(2)
   |                                               ^^^^^^^^^^^^
  --> test_staggered_store.py:14:19
14 |     chain = chain.epilog(memory=FR, store=store).split(64).pipeline(3).specialize(registers=(24, 240))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64 > load A to SH > load B to SH > tile 128x128 to Warpgroup
fix: store by through_shared(..., at=Warpgroup), or by conform()""",  # noqa: E501
    )
