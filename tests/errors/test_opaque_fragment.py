"""A bias for fragments whose layout the hardware does not document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, A, B, Block, Vector, Warp, add, matmul, wmma


def wrong() -> Any:
    bias = Vector(64, name="bias")
    return (
        matmul(64, 64, 64, "f16", out="f32")
        .tile(64, 64)
        .to(Block)
        .epilog(add(bias), memory=FR, store=lambda move: move.tile(16, 16).to(Warp).done("wmma"))
        .split(16)
        .tile(16, 16)
        .to(Warp)
        .load(A, FR, wmma())
        .load(B, FR, wmma())
        .done("wmma")
    )


def test_opaque_fragment(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "opaque-fragment",
        'epilog(add(bias), memory=FR, store=lambda move: move.tile(16, 16).to(Warp).done("wmma"))',
        """\
DecompositionError[opaque-fragment]: an op that reads bias takes acc element by element, but it is wmma.C.m16n16k16.f32, whose layout is the hardware's own
  --> test_opaque_fragment.py:17:10
17 |         .epilog(add(bias), memory=FR, store=lambda move: move.tile(16, 16).to(Warp).done("wmma"))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  --> test_opaque_fragment.py:23:10
23 |         .done("wmma")
   |          ^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 64x64 to Block
fix: move it by wmma(), and through shared memory where its elements matter""",  # noqa: E501
    )
