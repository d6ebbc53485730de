"""An epilog with an operand that does not broadcast over C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Vector, add, matmul, relu


def wrong() -> Any:
    chain = matmul(64, 96, 64).tile(32, 32).to(Block)
    return chain.epilog(add(Vector(64, name="bias")), relu)


def test_epilog_shape(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        'epilog(add(Vector(64, name="bias")), relu)',
        """\
SpecError[shape-mismatch]: bias[64].f32.GL does not broadcast over C[64, 96].f32.GL
  --> test_epilog_shape.py:13:18
13 |     return chain.epilog(add(Vector(64, name="bias")), relu)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x96x64 @ Kernel > tile 32x32 to Block
fix: extents must be equal, or 1 where a value repeats""",
    )
