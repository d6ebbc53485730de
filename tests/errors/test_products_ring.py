"""A specialised split whose ring has no slots for a later product's operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, ColMajor, Matrix, Warpgroup, products, tma


def wrong() -> Any:
    x, h, y = (Matrix(64, 64, "f16", name=name) for name in ("x", "h", "y"))
    w, u = Matrix(64, 64, "f16", ColMajor, name="w"), Matrix(64, 64, "f16", name="u")
    chain = products(y, [(x, w), (h, u)]).tile(64, 64).to(Block).epilog(memory=FR)
    chain = chain.split(32).pipeline(2).specialize()
    chain = chain.load(x, SH, tma(64)).load(h, SH, tma(64)).load(w, SH, tma(64)).load(u, SH, tma(64))
    return chain.tile(64, 64).to(Warpgroup).split(16).unroll().done()


def test_products_ring(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-ring",
        "load(u, SH, tma(64))",
        """\
DecompositionError[role-ring]: no free buffer of the ring is laid out as a tile 32x64 of u
  --> test_products_ring.py:16:82
16 |     chain = chain.load(x, SH, tma(64)).load(h, SH, tma(64)).load(w, SH, tma(64)).load(u, SH, tma(64))
   |                                                                                  ^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block > epilog
fix: give all products operands of one element type and order, or drop specialize()""",
    )
