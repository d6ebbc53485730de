"""save() to a tensor that the product reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, matmul, relu, save


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(save(Matrix(64, 64, name="A")), relu)


def test_epilog_overlap(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-overlap",
        'epilog(save(Matrix(64, 64, name="A")), relu)',
        """\
SpecError[epilog-overlap]: save(A) writes a tensor that is written or read too: A[64, 64].f32.GL
  --> test_epilog_overlap.py:13:18
13 |     return chain.epilog(save(Matrix(64, 64, name="A")), relu)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: store to another tensor, with another name""",
    )
